{% include "timeline/pixels.js" %}

/** Opens a timeline in the elements of part.html.j2. told: `choose(i)`, `mark(operation)`, called when a reader does so; `draw()`,
 * called in every frame that is drawn. */
// Draws at most one bar a pixel and row: a frame costs (width x rows x log instructions), however long the program is.
function startTimeline(data, told = {}) {
{% include "timeline/data.js" %}
{% include "timeline/rows.js" %}
{% include "timeline/draw.js" %}
{% include "timeline/words.js" %}
{% include "timeline/graph.js" %}
{% include "timeline/range.js" %}
{% include "timeline/moves.js" %}
{% include "timeline/events.js" %}
{% include "timeline/measure.js" %}
{% include "timeline/start.js" %}
}
