package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// conditional adds an ETag to every answer, and answers 304 to a caller that already has it.
func conditional(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if (r.Method != http.MethodGet && r.Method != http.MethodHead) || !strings.HasPrefix(r.URL.Path, Prefix+"/") {
			next.ServeHTTP(w, r)
			return
		}
		held := newRecorder(w.Header())
		next.ServeHTTP(held, r)
		if held.status == http.StatusOK {
			sum := sha256.Sum256(held.body.Bytes())
			tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
			w.Header().Set("ETag", tag)
			w.Header().Set("Cache-Control", "private, no-cache")
			if matches(r.Header.Get("If-None-Match"), tag) {
				w.Header().Del("Content-Type")
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
		w.WriteHeader(held.status)
		_, _ = w.Write(held.body.Bytes())
	})
}

func matches(given, tag string) bool {
	for one := range strings.SplitSeq(given, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}
