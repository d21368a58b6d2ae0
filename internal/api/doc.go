// Package api serves JSON under /api/v1, the health endpoints, the metrics and the published schemas. Its rows are also what the
// command line prints.
//
// It reads the store and sends commands through Control. Requests are authorized before they get here.
package api
