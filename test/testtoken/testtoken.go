// Package testtoken is the one place that knows the token of servers and daemons in tests and benchmarks.
package testtoken

import "net/http"

// Token is the token of test servers.
const Token = "token-of-the-test-server"

// Env sets the token of a daemon.
const Env = "CLAUDEOPS_API_TOKEN=" + Token

// Authorize adds the token to a request.
func Authorize(r *http.Request) { r.Header.Set("Authorization", "Bearer "+Token) }

// Transport adds the token to every request.
type Transport struct{ Base http.RoundTripper }

// RoundTrip sends a request with the token.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	Authorize(r)
	if t.Base == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.Base.RoundTrip(r)
}

// Handler lets requests that bring no token and no login of their own pass with the token.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("claudeops_login"); err != nil && r.Header.Get("Authorization") == "" {
			Authorize(r)
		}
		next.ServeHTTP(w, r)
	})
}
