package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotency-Replayed"
	maxKey       = 200
)

// Keyed is an action that can be repeated safely.
type Keyed struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"200" doc:"Unique per action. A repeated request gets the first answer."`
}

// scoped is the key with the name of the caller; empty without a key.
func (k Keyed) scoped(ctx context.Context) string {
	if k.IdempotencyKey == "" {
		return ""
	}
	return who(ctx) + " " + k.IdempotencyKey
}

// keyed answers a repeated request with its first answer.
func (s *server) keyed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(keyHeader)
		if key == "" || len(key) > maxKey || r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		asked, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			writeProblem(w, http.StatusRequestEntityTooLarge, "the request is too long")
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(asked))
		digest := sha256.Sum256(append([]byte(r.Method+" "+r.URL.RequestURI()+"\n"), asked...))
		request := store.Request{Caller: who(r.Context()), Key: key, Digest: hex.EncodeToString(digest[:]), At: s.Clock()}
		before, err := s.Store.BeginRequest(r.Context(), request)
		switch {
		case errors.Is(err, ops.ErrConflict):
			writeProblem(w, http.StatusConflict, err.Error())
		case store.Unavailable(err):
			s.Logger.WarnContext(r.Context(), "the database cannot be used to record a request", "error", err)
			w.Header().Set("Retry-After", retryAfter)
			writeProblem(w, http.StatusServiceUnavailable, databaseAway)
		case err != nil:
			s.Logger.ErrorContext(r.Context(), "cannot record a request", "error", err)
			writeProblem(w, http.StatusInternalServerError, "the request could not be recorded, so nothing was done")
		case before != nil:
			w.Header().Set(replayHeader, "true")
			send(w, *before)
		default:
			s.answerOnce(w, r, next, request)
		}
	})
}

// answerOnce handles a request and stores its answer.
func (s *server) answerOnce(w http.ResponseWriter, r *http.Request, next http.Handler, request store.Request) {
	kept := newRecorder(w.Header())
	next.ServeHTTP(kept, r)
	answer := store.Answer{
		Status: kept.status, Location: w.Header().Get("Location"), Type: w.Header().Get("Content-Type"), Body: kept.body.Bytes(),
	}
	// The work is done, even if the caller has disconnected.
	if err := s.Store.EndRequest(context.WithoutCancel(r.Context()), request, answer); err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot store the answer to a request", "error", err)
	}
	send(w, answer)
}

func send(w http.ResponseWriter, a store.Answer) {
	for name, value := range map[string]string{"Location": a.Location, "Content-Type": a.Type} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(a.Status)
	_, _ = w.Write(a.Body)
}

// recorder buffers an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder(h http.Header) *recorder { return &recorder{header: h, status: http.StatusOK} }

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
