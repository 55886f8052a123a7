"""One length of a bundle of several, with the members that it names and no others."""

from toolchain.runtime.contents import Bundle, description_name
from toolchain.runtime.executor import segment_members
from toolchain.runtime.lengths import Bucket, LengthBundle


def picked(joined: LengthBundle, bucket: Bucket, place: str) -> Bundle:
    """Raises UserError E1107 for a host model that points outside the bundle."""
    names = {name for region in bucket.content.regions for name in region.members}
    names |= {description_name(number) for number in range(len(bucket.content.targets))} & joined.members.keys()
    for segment in bucket.content.hosts:
        names |= {segment.model, *segment_members(joined.members[segment.model], joined.members, place)}
    return Bundle(bucket.content, {name: data for name, data in joined.members.items() if name in names})
