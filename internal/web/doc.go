// Package web is the operator's view: server-rendered pages and the one guard that every request passes,
// those for the API included.
//
// What agents and services wrote is hostile text. It reaches a page only escaped: through html/template, through the
// small pieces of marks, or, where it is markdown, through a renderer that drops HTML and a list of allowed elements.
//
// Pages are whole without scripts. With them they follow the journal: /stream says that rows changed and the page is fetched
// again and morphed, /sessions/{id}/stream carries the rows of a transcript and the state of a session. Rows are the truth,
// for streams too: their ids say how far a reader has come, so that it goes on there after any interruption, and the hub
// only makes them look sooner.
package web
