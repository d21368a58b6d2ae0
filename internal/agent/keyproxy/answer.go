package keyproxy

import (
	"encoding/json"
	"net/http"
)

// refuse answers in the form that both APIs give their errors.
func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	// The client may be gone.
	_ = json.NewEncoder(w).Encode(struct {
		Type  string `json:"type"`
		Error detail `json:"error"`
	}{"error", detail{kind, message}})
}
