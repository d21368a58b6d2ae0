// Package postmortem tells the story of an incident or a cycle from its rows: as a headline with at most eight steps, for pages,
// commands and notices, and as a report in Markdown. It reads nothing and asks no model. The texts of agents and
// services are data from outside: they are redacted and cannot form Markdown.
package postmortem
