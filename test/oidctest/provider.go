// Package oidctest is an OpenID Connect provider on loopback, for tests of the sign-in.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// ClientID and ClientSecret are those that the provider accepts.
const (
	ClientID     = "claudeops"
	ClientSecret = "secret-of-the-client"
)

// Provider knows one person, and can misbehave.
type Provider struct {
	*httptest.Server
	Now func() time.Time

	mu sync.Mutex
	// Claims are what it says about the person in tokens, Info what it says when asked.
	Claims, Info map[string]any
	// Change, if given, changes the claims of a token last of all.
	Change func(claims map[string]any)
	// Forge signs tokens with another key.
	Forge bool
	// Down makes every request fail.
	Down bool

	key   *rsa.PrivateKey
	codes map[string]asked
}

// Making a key takes longer than most of the tests: the providers have one, and one that is not theirs.
var own, foreign = sync.OnceValues(newKey), sync.OnceValues(newKey)

func newKey() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }

type asked struct{ nonce, challenge, redirect string }

// New starts a provider. Its clock stands at now.
func New(t testing.TB, now func() time.Time) *Provider {
	t.Helper()
	key, err := own()
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{Now: now, key: key, codes: map[string]asked{}, Claims: map[string]any{"sub": "42", "preferred_username": "alice"}}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	routes.HandleFunc("GET /keys", p.keys)
	routes.HandleFunc("POST /token", p.token)
	routes.HandleFunc("GET /userinfo", p.userinfo)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.Down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Set changes the provider between requests.
func (p *Provider) Set(change func(*Provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"userinfo_endpoint": p.URL + "/userinfo", "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": encode(p.key.N.Bytes()), "e": encode(big.NewInt(int64(p.key.E)).Bytes()),
	}}})
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Authorize does what a browser and a person do at the provider, and returns the query with which they come back.
func (p *Provider) Authorize(t testing.TB, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	if q.Get("client_id") != ClientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" ||
		q.Get("state") == "" || q.Get("nonce") == "" || q.Get("code_challenge") == "" {
		t.Fatalf("sent to the provider: %v", q)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code := rand.Text()
	p.codes[code] = asked{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")}
	return url.Values{"code": {code}, "state": {q.Get("state")}}
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	code := r.PostFormValue("code")
	begun, known := p.codes[code]
	delete(p.codes, code)
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if id != ClientID || secret != ClientSecret || !known || encode(sum[:]) != begun.challenge || r.PostFormValue("redirect_uri") != begun.redirect {
		w.WriteHeader(http.StatusBadRequest)
		answer(w, map[string]any{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{
		"iss": p.URL, "aud": ClientID, "exp": p.Now().Add(time.Hour).Unix(), "iat": p.Now().Unix(), "nonce": begun.nonce,
	}
	for name, value := range p.Claims {
		claims[name] = value
	}
	if p.Change != nil {
		p.Change(claims)
	}
	answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 3600, "id_token": p.sign(claims)})
}

func (p *Provider) sign(claims map[string]any) string {
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": "1", "typ": "JWT"})
	body, _ := json.Marshal(claims)
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	key := p.key
	if p.Forge {
		var err error
		if key, err = foreign(); err != nil {
			return ""
		}
	}
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return ""
	}
	return text + "." + encode(signature)
}

func (p *Provider) userinfo(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := map[string]any{"sub": p.Claims["sub"]}
	for name, value := range p.Info {
		info[name] = value
	}
	answer(w, info)
}
