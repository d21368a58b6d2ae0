// Package web serves the operator's pages, and the security checks that every request passes, API requests included.
//
// Text from agents and services is hostile. It reaches a page only escaped: by html/template, by the HTML snippets, or, for
// markdown, by a renderer that can write only allowed elements, addresses and escaped text.
//
// Pages work without scripts. With scripts they follow the journal: /stream reports that rows changed, and the page is fetched
// again and morphed; /sessions/{id}/stream carries transcript rows and the state of one session. The database is the source of
// truth for streams too: event ids say what a reader has received, so it continues there after a reconnect. The hub only makes
// streams read sooner.
package web
