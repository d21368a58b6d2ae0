// Package api is the machine's door to the journal: JSON under /api/v1, the health endpoints and the published schemas.
//
// It reads the store and commands through Control. Who may come in is decided before a request gets here.
package api
