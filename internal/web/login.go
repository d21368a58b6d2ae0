package web

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web/login"
)

const (
	loginCookie = "claudeops_login"
	// idleLogin is how long an unused login lasts, longestLogin how long any login lasts.
	idleLogin    = 12 * time.Hour
	longestLogin = 7 * 24 * time.Hour
	// renewLogin is the age at which a cookie is replaced; requests in flight may still carry the old one for renewGrace.
	renewLogin  = time.Hour
	renewGrace  = time.Minute
	longestOIDC = 24 * time.Hour
	secretBytes = 24
)

// Whoever has a configured token has no name of their own; by whichever door, sentences are made of these.
const (
	nameOperator = "an operator"
)

// The first letter of a cookie says what it came from.
const (
	fullCookie  = "f" // the configured token
	linkCookie  = "c" // the code of a sign-in link
	tokenCookie = "t" // a token with a name
	oidcCookie  = "o" // an identity provider
)

// logins authenticates requests. A cookie is a random secret; the database stores its digest, keyed with the token. So logins
// and logouts survive a restart, and a new token ends every login.
type logins struct {
	store    *store.Store
	full     key
	keys     map[string]key // by what a cookie came from
	operator bool           // the full token was set by the operator, not made by the daemon
}

// key is derived from a token.
type key struct {
	set  bool
	hash [sha256.Size]byte // of the token, so that the comparison time does not depend on its length
	sign []byte
}

func newKey(token, purpose string) key {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(purpose))
	return key{set: token != "", hash: sha256.Sum256([]byte(token)), sign: mac.Sum(nil)}
}

func (k key) matches(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], k.hash[:]) == 1 && k.set
}

func (k key) digest(secret string) string {
	mac := hmac.New(sha256.New, k.sign)
	mac.Write([]byte(secret))
	return hex.EncodeToString(mac.Sum(nil))
}

func newLogins(o Options) *logins {
	l := &logins{store: o.Store, full: newKey(o.Token, "claudeops page login v2"), operator: o.OperatorToken}
	l.keys = map[string]key{
		fullCookie:  l.full,
		linkCookie:  newKey(o.Token, "claudeops page login by link v1"),
		tokenCookie: newKey(o.Token, "claudeops page login by named token v1"),
	}
	if o.OIDC != nil {
		// Another provider, or other rules about its users, end the logins.
		l.keys[oidcCookie] = newKey(o.Token, "claudeops page login by OIDC v1 "+o.OIDC.Fingerprint())
	}
	return l
}

// holder is who a token belongs to.
type holder struct {
	caller api.Caller
	kind   string // of the cookie that a login with the token gets
	token  int64  // of a token with a name
}

// holderOf checks a token. An unknown one is ops.ErrNotFound; any other error means that the database could not be asked.
func (s *door) holderOf(ctx context.Context, token string) (holder, error) {
	if s.logins.full.matches(token) {
		return holder{caller: s.logins.tokenCaller(), kind: fullCookie}, nil
	}
	if !strings.HasPrefix(token, store.TokenPrefix) || s.Store == nil {
		return holder{}, ops.ErrNotFound
	}
	found, err := s.Store.People.UseToken(ctx, token, s.Clock())
	if found.ID == 0 {
		return holder{}, err
	}
	if err != nil { // only the time of its use could not be written
		s.Logger.WarnContext(ctx, "record token use failed", "token", found.Name, "error", err)
	}
	by := api.Caller{Name: "token " + found.Name, Role: access.Role(found.Role), Bearer: true}
	return holder{caller: by, kind: tokenCookie, token: found.ID}, nil
}

// givenToken returns the bearer token of a request.
func givenToken(r *http.Request) (token string, given bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// digest returns the digest of a cookie and what the cookie came from.
func (l *logins) digest(cookie string) (digest, kind string, ok bool) {
	kind, secret, found := strings.Cut(cookie, ".")
	if k, known := l.keys[kind]; found && known && len(secret) >= secretBytes && l.full.set {
		return k.digest(secret), kind, true
	}
	return "", "", false
}

// found is the login of a request, and what it came from.
type found struct {
	store.Login
	kind string
}

// find returns the login of the cookie of a request.
func (l *logins) find(r *http.Request, now time.Time) (found, error) {
	cookie, err := r.Cookie(loginCookie)
	if err != nil {
		return found{}, ops.ErrNotFound
	}
	digest, kind, ok := l.digest(cookie.Value)
	if !ok {
		return found{}, ops.ErrNotFound
	}
	login, err := l.store.People.Login(r.Context(), digest, now)
	return found{login, kind}, err
}

// issue stores a new login and returns its cookie value. A login that it replaces stays valid for renewGrace.
func (l *logins) issue(ctx context.Context, kind string, login store.Login, now time.Time, replaces string) (
	cookie string, end time.Time, err error,
) {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // it never returns an error
	cookie = kind + "." + base64.RawURLEncoding.EncodeToString(random)
	login.Digest, _, _ = l.digest(cookie)
	end = now.Add(idleLogin)
	if last := login.BornAt.Add(longest(kind)); last.Before(end) {
		end = last
	}
	login.RenewedAt, login.ExpiresAt = now, end
	return cookie, end, l.store.People.AddLogin(ctx, login, replaces, now.Add(renewGrace))
}

// longest is how long a login lasts at most. What an identity provider knows of a person may change.
func longest(kind string) time.Duration {
	if kind == oidcCookie {
		return longestOIDC
	}
	return longestLogin
}

// loginOf returns the login of a request, if it has one.
func (s *door) loginOf(r *http.Request) (found, bool) {
	login, err := s.logins.find(r, s.Clock())
	if err != nil && !errors.Is(err, ops.ErrNotFound) && r.Context().Err() == nil {
		s.Logger.ErrorContext(r.Context(), "read login failed", "error", err)
	}
	return login, err == nil
}

// renew replaces a cookie that is not new any more.
func (s *door) renew(w http.ResponseWriter, r *http.Request, login found) {
	now := s.Clock()
	if now.Sub(login.RenewedAt) < renewLogin || r.Method != http.MethodGet || isStream(r.URL.Path) {
		return
	}
	cookie, end, err := s.logins.issue(r.Context(), login.kind, login.Login, now, login.Digest)
	switch {
	case errors.Is(err, ops.ErrConflict): // another request of the same browser already renewed it
	case err != nil:
		s.Logger.ErrorContext(r.Context(), "renew login failed", "error", err)
	default:
		setLogin(w, r, cookie, end)
	}
}

func setLogin(w http.ResponseWriter, r *http.Request, value string, end time.Time) {
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Value: value, Path: "/", Expires: end,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
}

type loginView struct {
	Wrong   bool
	OldLink bool // the code of the link is used up, too old, or wrong
	Next    string
	// Provider is the name of the identity provider; empty without one.
	Provider string
}

func (s *door) loginPage(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.URL.Query().Get("next"))
	if r.URL.Query().Has("code") && !isPreview(r) {
		s.signIn(w, r, next)
		return
	}
	if _, in := s.loginOf(r); in {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	s.showLogin(w, r, http.StatusOK, loginView{Next: next})
}

// showLogin shows the page with all ways to log in.
func (s *door) showLogin(w http.ResponseWriter, r *http.Request, status int, v loginView) {
	if s.OIDC != nil {
		v.Provider = plain(s.OIDC.Name())
	}
	s.render(w, r, status, "login", page{Title: "Log in", Body: v})
}

func (s *door) login(w http.ResponseWriter, r *http.Request) {
	next := localPath(r.PostFormValue("next"))
	who, err := s.holderOf(r.Context(), strings.TrimSpace(r.PostFormValue("token")))
	switch {
	case errors.Is(err, ops.ErrNotFound):
		if wait := s.wrongGuess(r, "tried to log in with a wrong token"); wait > 0 {
			s.tooMany(w, r, wait, "Too many wrong tokens.")
			return
		}
		s.showLogin(w, r, http.StatusUnauthorized, loginView{Wrong: true, Next: next})
		return
	case err != nil:
		s.fail(w, r, "login", err)
		return
	}
	login := store.Login{Role: string(who.caller.Role), TokenID: who.token}
	if who.token != 0 {
		login.Name = who.caller.Name
	}
	if s.begin(w, r, who.kind, login, who.caller) {
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

// begin starts a login and records it. If it cannot, it responds with the error and returns false.
func (s *door) begin(w http.ResponseWriter, r *http.Request, kind string, login store.Login, by api.Caller) bool {
	now := s.Clock()
	login.BornAt = now
	cookie, end, err := s.logins.issue(r.Context(), kind, login, now, "")
	if err != nil {
		s.fail(w, r, "login", err)
		return false
	}
	s.record(r, by, ops.VerbLoginChanged, ops.LevelInfo, "logged in")
	setLogin(w, r, cookie, end)
	return true
}

func (s *door) logout(w http.ResponseWriter, r *http.Request) {
	if login, in := s.loginOf(r); in {
		if err := s.logins.store.People.EndLogin(r.Context(), login.Digest); err != nil {
			s.fail(w, r, "login", err) // the cookie still works, so it is not removed
			return
		}
		s.record(r, s.logins.loginCaller(login), ops.VerbLoginChanged, ops.LevelInfo, "logged out")
	}
	http.SetCookie(w, &http.Cookie{
		Name: loginCookie, Path: "/", MaxAge: -1,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: encrypted(r),
	})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func (l *logins) tokenCaller() api.Caller {
	return api.Caller{Name: nameOperator, Role: access.RoleAdmin, Bearer: true, KnowsToken: l.operator}
}

func (l *logins) loginCaller(login found) api.Caller {
	c := api.Caller{Name: login.Name, Role: access.Role(login.Role), Login: true}
	switch login.kind {
	case fullCookie:
		c.Name, c.KnowsToken = nameOperator, l.operator
	case oidcCookie:
		// An agent does not have the person's account.
		c.KnowsToken = true
	}
	return c
}

// loginPath returns the URL of the login page, which then redirects to the requested page.
func loginPath(r *http.Request) string {
	if r.Method != http.MethodGet || r.URL.Path == "/" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// localPath returns a redirect target on this site.
func localPath(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(u.Path, "//") || strings.ContainsAny(target, "\\\r\n\t") {
		return "/"
	}
	return u.RequestURI()
}

// encrypted reports whether the browser uses TLS, to this server or to a proxy in front of it.
func encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// codeLifetime is how long a sign-in link works.
const codeLifetime = 10 * time.Minute

// SignInPath makes a code and returns the path that signs a browser in with it: once, within ten minutes. User is the name of the person
// who asked. Only a digest is stored.
func SignInPath(ctx context.Context, people *store.People, now time.Time, user string) (string, error) {
	code := rand.Text()
	if err := people.AddCode(ctx, code, user, now, now.Add(codeLifetime)); err != nil {
		return "", err
	}
	return "/login?code=" + code, nil
}

// signIn signs a browser in with the code of a link.
func (s *door) signIn(w http.ResponseWriter, r *http.Request, next string) {
	user, err := s.Store.People.UseCode(r.Context(), strings.TrimSpace(r.URL.Query().Get("code")), s.Clock())
	if err != nil && !errors.Is(err, ops.ErrNotFound) {
		s.fail(w, r, "login", err)
		return
	}
	if _, in := s.loginOf(r); in { // its link is used up all the same: nobody else may find it
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	if err != nil {
		if wait := s.wrongGuess(r, "used a sign-in link that is not valid"); wait > 0 {
			s.tooMany(w, r, wait, "Too many wrong tokens.")
			return
		}
		s.showLogin(w, r, http.StatusUnauthorized, loginView{OldLink: true, Next: next})
		return
	}
	if !s.begin(w, r, linkCookie, store.Login{Role: string(access.RoleAdmin), Name: user}, api.Caller{Name: user}) {
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// isPreview reports whether a browser or another program only loads a page in advance. Such a request must not use up a code.
func isPreview(r *http.Request) bool {
	for _, name := range []string{"Sec-Purpose", "Purpose", "X-Purpose", "X-Moz"} {
		if value := strings.ToLower(r.Header.Get(name)); strings.Contains(value, "prefetch") || strings.Contains(value, "preview") {
			return true
		}
	}
	return r.Method != http.MethodGet
}

// localUserKey is the context key of the user behind a request of the control socket.
type localUserKey struct{}

// WithLocalUser marks a request of the control socket, whose sender the kernel has named. It needs no token.
func WithLocalUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, localUserKey{}, user)
}

func localUser(r *http.Request) (string, bool) {
	user, ok := r.Context().Value(localUserKey{}).(string)
	return user, ok
}

const (
	// signInPath begins the pages that sign in and need no login.
	signInPath   = "/login/"
	oidcPath     = "/login/oidc"
	oidcCallback = oidcPath + "/callback"
	// attemptCookie holds a sign-in with the provider until it comes back.
	attemptCookie = "claudeops_sign_in"
	attemptTime   = 10 * time.Minute
)

// OIDCCallback is the path to which an identity provider sends people back.
const OIDCCallback = oidcCallback

// attempt is a sign-in with an identity provider, as the browser keeps it.
type attempt struct {
	login.Attempt
	Next string    `json:"next"`
	Ends time.Time `json:"ends"`
}

// attemptKey signs the attempts, so that only this server makes them.
func (s *door) attemptKey() key { return newKey(s.Token, "claudeops OIDC attempt v1") }

func (s *door) setAttempt(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: attemptCookie, Value: value, Path: oidcPath, MaxAge: int(age.Seconds()), HttpOnly: true, Secure: encrypted(r),
		SameSite: http.SameSiteLaxMode, // the provider, another site, sends the browser back
	})
}

// oidcBegin sends the browser to the identity provider.
func (s *door) oidcBegin(w http.ResponseWriter, r *http.Request) {
	if s.OIDC == nil {
		s.errorPage(w, r, http.StatusNotFound, "No identity provider is configured.")
		return
	}
	address, begun, err := s.OIDC.Begin(r.Context())
	if err != nil {
		s.oidcFailed(w, r, err)
		return
	}
	text, err := json.Marshal(attempt{begun, localPath(r.URL.Query().Get("next")), s.Clock().Add(attemptTime)})
	if err != nil {
		s.fail(w, r, "login", err)
		return
	}
	value := base64.RawURLEncoding.EncodeToString(text)
	s.setAttempt(w, r, value+"."+s.attemptKey().digest(value), attemptTime)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, address, http.StatusSeeOther)
}

// readAttempt returns the attempt that this browser began.
func (s *door) readAttempt(r *http.Request) (attempt, bool) {
	var a attempt
	cookie, err := r.Cookie(attemptCookie)
	if err != nil {
		return a, false
	}
	value, digest, found := strings.Cut(cookie.Value, ".")
	if !found || !hmac.Equal([]byte(digest), []byte(s.attemptKey().digest(value))) {
		return a, false
	}
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return a, false
	}
	return a, s.Clock().Before(a.Ends)
}

// oidcReturn signs a browser in that comes back from the identity provider.
func (s *door) oidcReturn(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	a, ok := s.readAttempt(r)
	if s.OIDC == nil || !ok {
		s.signInProblem(w, r, http.StatusBadRequest, "This sign-in was not begun in this browser, or more than ten minutes ago.",
			"Begin again on the login page.")
		return
	}
	s.setAttempt(w, r, "", -time.Second)
	who, err := s.OIDC.Finish(r.Context(), a.Attempt, r.URL.Query())
	if err != nil {
		s.oidcFailed(w, r, err)
		return
	}
	if s.begin(w, r, oidcCookie, store.Login{Role: string(who.Role), Name: who.Name}, api.Caller{Name: who.Name}) {
		// The browser sends the cookie only to pages that it reaches from this site, so a redirect would arrive without it.
		s.render(w, r, http.StatusOK, "signed_in", page{Title: "Signed in", Body: localPath(a.Next), Refresh: localPath(a.Next)})
	}
}

// oidcFailed says what went wrong and what to do.
func (s *door) oidcFailed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	var problem *login.Error
	if !errors.As(err, &problem) {
		problem = &login.Error{Reason: login.Unreachable, Err: err}
	}
	name := plain(s.OIDC.Name())
	s.Logger.WarnContext(r.Context(), "OIDC sign-in failed", "issuer", s.OIDC.Issuer(), "user", problem.Who, "error", clipped(problem.Error()))
	switch problem.Reason {
	case login.Unreachable:
		s.signInProblem(w, r, http.StatusBadGateway, fmt.Sprintf("%s does not answer as an identity provider.", name),
			"Try again in a moment. If it stays so, check oidc.issuer in the configuration and read the log. The token still works.")
		return
	case login.NotAllowed:
		who := plain(problem.Who)
		s.record(r, api.Caller{Name: "unknown"}, ops.VerbLoginChanged, ops.LevelWarning, fmt.Sprintf("%s signed in by OIDC and has no role", who))
		s.signInProblem(w, r, http.StatusForbidden, fmt.Sprintf("%s knows you as %s, who has no role here.", name, who),
			"Ask an administrator to add you, or one of your groups, to oidc.admins, oidc.responders or oidc.readers.")
		return
	case login.Refused, login.Invalid:
	}
	if wait := s.wrongGuess(r, "failed to sign in by OIDC"); wait > 0 {
		s.tooMany(w, r, wait, "Too many failed sign-ins.")
		return
	}
	if problem.Reason == login.Refused {
		s.signInProblem(w, r, http.StatusForbidden, fmt.Sprintf("%s refused the sign-in: %s.", name, plain(clipped(problem.Error()))),
			"Begin again on the login page.")
		return
	}
	s.signInProblem(w, r, http.StatusBadRequest, fmt.Sprintf("The answer of %s is not valid for this sign-in.", name),
		"Begin again on the login page. If it stays so, check oidc.client_id and the clocks of both machines.")
}

func clipped(text string) string { return ops.Start(strings.TrimSpace(text), 300) }

// problemView is a sign-in or a link that did not work, and what to do.
type problemView struct {
	Title, What, Todo string
	Good              string // what was done, instead of What
	Link, LinkText    string
}

func (s *door) signInProblem(w http.ResponseWriter, r *http.Request, status int, what, todo string) {
	s.render(w, r, status, "sign_in_problem", page{
		Title: "Sign-in failed", Static: true,
		Body: problemView{Title: "Sign-in failed", What: what, Todo: todo, Link: "/login", LinkText: "Log in"},
	})
}
