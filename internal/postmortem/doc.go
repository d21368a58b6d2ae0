// Package postmortem tells the story of an incident from its rows: as a timeline for a page, and as a report in Markdown. It reads
// nothing and asks no model. The texts of agents and services are data from outside: they are redacted and cannot form Markdown.
package postmortem
