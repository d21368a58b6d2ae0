package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// signatureHeader carries t=UNIX_SECONDS,v2=HEX: the HMAC-SHA256 of time, request target and body, see signature.
	signatureHeader = "X-Claudeops-Signature"
	// signedWithin is how far the time of a signature may be from ours.
	signedWithin = 5 * time.Minute
)

// receipt identifies a signed request; the zero value is a request without a signature.
type receipt struct {
	signature string
	expires   time.Time
}

// read returns the body of a request after its sender is authorized. No slot is taken meanwhile: a sender who does not finish
// a body keeps nobody else out.
// A secret in the address is right or wrong whatever else is sent.
func (h *Hook) read(w http.ResponseWriter, r *http.Request, named, secret bool) ([]byte, receipt, bool) {
	known := named || !secret && h.known(r)
	signed := !secret && h.o.Secret != "" && r.Header.Get(signatureHeader) != ""
	if secret && !known {
		problem(w, http.StatusUnauthorized, "unknown sender, or wrong secret: compare the address with webhooks.senders")
		return nil, receipt{}, false
	}
	if !signed && !known {
		w.Header().Set("WWW-Authenticate", `Bearer realm="claudeops"`)
		problem(w, http.StatusUnauthorized, `send the token as "Authorization: Bearer …", or sign the request with `+signatureHeader)
		return nil, receipt{}, false
	}
	unfinished := &h.strangers
	if known {
		unfinished = &h.senders
	}
	body, err := unfinished.read(w, r)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		problem(w, http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB")
		return nil, receipt{}, false
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		problem(w, http.StatusRequestTimeout, "the body did not arrive in time")
		return nil, receipt{}, false
	case err != nil:
		problem(w, http.StatusBadRequest, "the body could not be read")
		return nil, receipt{}, false
	case !signed:
		return body, receipt{}, true
	}
	got, err := h.signature(r, body)
	if err != nil {
		problem(w, http.StatusUnauthorized, err.Error())
		return nil, receipt{}, false
	}
	return body, got, true
}

// known reports whether the sender has the token.
func (h *Hook) known(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && same(strings.TrimSpace(token), h.o.Token)
}

// same compares a secret with the right one, which is never empty, in a time that tells nothing.
func same(given, right string) bool {
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(right))
	return right != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// signature checks the signature of a request. What is signed is "TIME.TARGET.BODY": the Unix time in seconds, the path and query
// as they were sent, and the body.
func (h *Hook) signature(r *http.Request, body []byte) (receipt, error) {
	at, hexMAC, found := strings.Cut(r.Header.Get(signatureHeader), ",")
	at, timed := strings.CutPrefix(strings.TrimSpace(at), "t=")
	hexMAC, versioned := strings.CutPrefix(strings.TrimSpace(hexMAC), "v2=")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if !found || !timed || !versioned || err != nil {
		return receipt{}, errors.New(signatureHeader + " must be t=UNIX_SECONDS,v2=HEX")
	}
	mac := h.mac([]byte(at), []byte("."), []byte(r.URL.RequestURI()), []byte("."), body)
	if got, err := hex.DecodeString(hexMAC); err != nil || !hmac.Equal(got, mac) {
		return receipt{}, errors.New("the signature does not match time, path, query and body")
	}
	signedAt := time.Unix(seconds, 0)
	if age := h.o.Clock().Sub(signedAt); age > signedWithin || age < -signedWithin {
		return receipt{}, errors.New("the time of the signature is more than 5 minutes from the time here")
	}
	return receipt{signature: hex.EncodeToString(mac), expires: signedAt.Add(signedWithin)}, nil
}

func (h *Hook) mac(parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, []byte(h.o.Secret))
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// answer is the body of 202.
type answer struct {
	Accepted int  `json:"accepted"`
	Replayed bool `json:"replayed,omitempty"` // it was received before and is stored already
	Test     bool `json:"test,omitempty"`     // somebody pressed the test button
}

func answered(w http.ResponseWriter, a answer) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(a)
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
