// Package web is the operator's view: server-rendered pages and the one guard that every request passes,
// those for the API included.
//
// What agents and services wrote is hostile text. It reaches a page only through html/template, and no page runs a script.
package web
