package api

import "net/http"

// published serves a JSON Schema that agents and editors validate against.
func published(schema []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/schema+json")
		_, _ = w.Write(schema)
	}
}
