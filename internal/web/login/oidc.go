// Package login signs people in with an OpenID Connect provider (authorization code with PKCE, state and nonce). The provider is asked
// nothing before the first sign-in.
package login

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"claudeops/internal/access"
)

const (
	// timeout limits one request to the provider, maxAnswer the size of its answer.
	timeout   = 10 * time.Second
	maxAnswer = 1 << 20
	// retryAfter is how long a provider that failed is not asked again.
	retryAfter = 5 * time.Second
	longestID  = 100
)

// Rule gives a role to users and groups.
type Rule struct {
	Role   access.Role
	Users  []string
	Groups []string
}

// groupsClaim lists the groups of a person. No standard names it; the usual providers call it so, or can be told to.
const groupsClaim = "groups"

// ProviderOptions are the provider and its users.
type ProviderOptions struct {
	Issuer       string
	ClientID     string
	ClientSecret string
	RedirectURL  string
	Rules        []Rule // the strongest role that matches counts
	Clock        func() time.Time
}

// Reason is why a sign-in failed.
type Reason int

// The reasons.
const (
	Unreachable Reason = iota + 1 // the provider did not answer, or not as a provider does
	Refused                       // the provider refused, or the person cancelled
	Invalid                       // the answer does not belong to this sign-in, or is forged
	NotAllowed                    // the person is known to the provider and has no role here
)

// Error is a failed sign-in.
type Error struct {
	Reason Reason
	Who    string // if the provider named somebody
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

func failed(reason Reason, err error) error { return &Error{Reason: reason, Err: err} }

// Attempt is one sign-in between its two requests. Only the browser that began it has it.
type Attempt struct {
	State    string `json:"state"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
}

// Identity is a person who signed in.
type Identity struct {
	Name string
	Role access.Role
}

// Provider is an identity provider.
type Provider struct {
	o      ProviderOptions
	client *http.Client

	mu     sync.Mutex
	found  *oidc.Provider
	failed error
	until  time.Time // failed holds until then
}

// NewProvider makes a provider. It sends no request.
func NewProvider(o ProviderOptions) *Provider {
	return &Provider{o: o, client: &http.Client{Timeout: timeout, Transport: limited{http.DefaultTransport}}}
}

// limited cuts the answers of a provider.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxAnswer), answer.Body}
	}
	return answer, err
}

// Name is the name of the provider for people.
func (p *Provider) Name() string {
	if u, err := url.Parse(p.o.Issuer); err == nil && u.Host != "" {
		return u.Host
	}
	return p.o.Issuer
}

// Issuer is the address of the provider.
func (p *Provider) Issuer() string { return p.o.Issuer }

// Fingerprint changes when the provider or the rules about its users change.
func (p *Provider) Fingerprint() string {
	text, _ := json.Marshal([]any{p.o.Issuer, p.o.ClientID, p.o.Rules}) // it holds texts only
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// discover reads the configuration of the provider at the first use.
func (p *Provider) discover(ctx context.Context) (*oidc.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	now := p.o.Clock()
	if p.failed != nil && now.Before(p.until) {
		return nil, p.failed
	}
	// The keys of the provider are read again later, after this request has ended.
	ctx = context.WithoutCancel(ctx)
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.o.Issuer)
	if err != nil {
		p.failed, p.until = failed(Unreachable, err), now.Add(retryAfter)
		return nil, p.failed
	}
	p.found, p.failed = found, nil
	return found, nil
}

func (p *Provider) oauth(found *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: found.Endpoint(), RedirectURL: p.o.RedirectURL,
		Scopes: []string{oidc.ScopeOpenID, "profile", "email"}, // people are named by user name or address; groups have no standard scope
	}
}

// Begin starts a sign-in: the browser keeps the attempt and goes to the address.
func (p *Provider) Begin(ctx context.Context) (address string, a Attempt, err error) {
	found, err := p.discover(ctx)
	if err != nil {
		return "", Attempt{}, err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth(found).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// Finish ends a sign-in with what the provider sent back through the browser.
func (p *Provider) Finish(ctx context.Context, a Attempt, sent url.Values) (Identity, error) {
	if a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(sent.Get("state"))) != 1 {
		return Identity{}, failed(Invalid, errors.New("the answer belongs to another sign-in"))
	}
	if word := sent.Get("error"); word != "" {
		return Identity{}, failed(Refused, fmt.Errorf("%s %s", word, sent.Get("error_description")))
	}
	found, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth(found).Exchange(ctx, sent.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		var refused *oauth2.RetrieveError
		if errors.As(err, &refused) && refused.Response != nil && refused.Response.StatusCode < http.StatusInternalServerError {
			return Identity{}, failed(Refused, errors.New("the provider did not accept the code: "+refused.ErrorCode))
		}
		return Identity{}, failed(Unreachable, err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Identity{}, failed(Invalid, errors.New("the answer of the provider has no id_token"))
	}
	verified, err := found.Verifier(&oidc.Config{ClientID: p.o.ClientID, Now: p.o.Clock}).Verify(ctx, raw)
	if err != nil {
		return Identity{}, failed(Invalid, err)
	}
	if subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(a.Nonce)) != 1 {
		return Identity{}, failed(Invalid, errors.New("the id_token belongs to another sign-in"))
	}
	c, err := p.claims(ctx, found, verified, token)
	if err != nil {
		return Identity{}, err
	}
	return p.identify(c)
}

// claims are what a provider says about a person.
type claims struct {
	subject, username, email string
	groups                   []string
}

// claims reads the claims of the token, and asks the provider for those that it does not put into tokens.
func (p *Provider) claims(ctx context.Context, found *oidc.Provider, token *oidc.IDToken, access *oauth2.Token) (claims, error) {
	var all map[string]any
	if err := token.Claims(&all); err != nil {
		return claims{}, failed(Invalid, err)
	}
	_, named := all["preferred_username"]
	_, grouped := all[groupsClaim]
	if (!named || !grouped) && found.UserInfoEndpoint() != "" {
		info, err := found.UserInfo(ctx, oauth2.StaticTokenSource(access))
		if err != nil {
			return claims{}, failed(Unreachable, err)
		}
		var more map[string]any
		if err := info.Claims(&more); err != nil || info.Subject != token.Subject {
			return claims{}, failed(Invalid, errors.New("the provider answered about another person"))
		}
		for name, value := range more {
			if _, known := all[name]; !known {
				all[name] = value
			}
		}
	}
	c := claims{subject: token.Subject, groups: texts(all[groupsClaim])}
	c.username, _ = all["preferred_username"].(string)
	// Anybody could enter an address that the provider has not verified.
	if verified, _ := all["email_verified"].(bool); verified {
		c.email, _ = all["email"].(string)
	}
	return c, nil
}

func texts(value any) []string {
	switch v := value.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, x := range v {
			if text, ok := x.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// identify finds the role of a person.
func (p *Provider) identify(c claims) (Identity, error) {
	who := Identity{Name: clean(first(c.email, c.username, c.subject))}
	for _, rule := range p.o.Rules {
		if rule.matches(c) && stronger(rule.Role, who.Role) {
			who.Role = rule.Role
		}
	}
	if !who.Role.Known() {
		return who, &Error{Reason: NotAllowed, Who: who.Name, Err: errors.New("no role is configured for this person")}
	}
	return who, nil
}

func (r Rule) matches(c claims) bool {
	for _, user := range r.Users {
		if user != "" && (user == c.username || user == c.subject || strings.EqualFold(user, c.email)) {
			return true
		}
	}
	return slices.ContainsFunc(r.Groups, func(group string) bool { return group != "" && slices.Contains(c.groups, group) })
}

func stronger(a, b access.Role) bool {
	return slices.Index(access.Roles(), a) > slices.Index(access.Roles(), b)
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// clean is a name without characters that could hide or imitate something in a record.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == ':' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if runes := []rune(name); len(runes) > longestID {
		name = string(runes[:longestID])
	}
	return name
}
