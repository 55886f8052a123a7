"""Programs as bytes: encoding, decoding, and the files that hold them."""
