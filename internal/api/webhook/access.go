package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const signatureHeader = "X-Hub-Signature-256"

// read returns the body of a request after its sender is authorized.
func (h *Hook) read(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	signed := h.o.Secret != "" && r.Header.Get(signatureHeader) != ""
	if !signed && !h.known(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="claudeops"`)
		problem(w, http.StatusUnauthorized, `send the token as "Authorization: Bearer …", or sign the body with `+signatureHeader)
		return nil, false
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB")
		return nil, false
	case err != nil:
		problem(w, http.StatusBadRequest, "the body could not be read")
		return nil, false
	case signed && !h.signature(r, body):
		problem(w, http.StatusUnauthorized, "the signature does not match the body")
		return nil, false
	}
	return body, true
}

// known reports whether the sender has the token.
func (h *Hook) known(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || h.o.Token == "" {
		return false
	}
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(h.o.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

func (h *Hook) signature(r *http.Request, body []byte) bool {
	text, ok := strings.CutPrefix(r.Header.Get(signatureHeader), "sha256=")
	if !ok {
		return false
	}
	got, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(h.o.Secret))
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}

func accepted(w http.ResponseWriter, n int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(struct {
		Accepted int `json:"accepted"`
	}{n})
}

func busy(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	problem(w, http.StatusTooManyRequests, why+"; try again later")
}

func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, detail})
}
