package web

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web/login"
)

// codeLifetime is how long a sign-in link works.
const codeLifetime = 10 * time.Minute

// SignInPath makes a code and returns the path that signs a browser in with it: once, within ten minutes. User is the name of the person
// who asked. Only a digest is stored.
func SignInPath(ctx context.Context, people *store.Store, now time.Time, user string) (string, error) {
	code := rand.Text()
	if err := people.AddCode(ctx, code, user, now, now.Add(codeLifetime)); err != nil {
		return "", err
	}
	return "/login?code=" + code, nil
}

// signIn signs a browser in with the code of a link.
func (s *server) signIn(w http.ResponseWriter, r *http.Request, next string) {
	user, err := s.Store.UseCode(r.Context(), strings.TrimSpace(r.URL.Query().Get("code")), s.Clock())
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
	if !s.begin(w, r, linkCookie, store.Login{Role: access.RoleAdmin, Name: user}, api.Caller{Name: user}) {
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
func (s *server) attemptKey() key { return newKey(s.Token, "claudeops OIDC attempt v1") }

func (s *server) setAttempt(w http.ResponseWriter, r *http.Request, value string, age time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: attemptCookie, Value: value, Path: oidcPath, MaxAge: int(age.Seconds()), HttpOnly: true, Secure: encrypted(r),
		SameSite: http.SameSiteLaxMode, // the provider, another site, sends the browser back
	})
}

// oidcBegin sends the browser to the identity provider.
func (s *server) oidcBegin(w http.ResponseWriter, r *http.Request) {
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
func (s *server) readAttempt(r *http.Request) (attempt, bool) {
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
func (s *server) oidcReturn(w http.ResponseWriter, r *http.Request) {
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
	if s.begin(w, r, oidcCookie, store.Login{Role: who.Role, Name: who.Name}, api.Caller{Name: who.Name}) {
		// The browser sends the cookie only to pages that it reaches from this site, so a redirect would arrive without it.
		s.render(w, r, http.StatusOK, "signed_in", page{Title: "Signed in", Body: localPath(a.Next), Refresh: localPath(a.Next)})
	}
}

// oidcFailed says what went wrong and what to do.
func (s *server) oidcFailed(w http.ResponseWriter, r *http.Request, err error) {
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

func clipped(text string) string {
	text, _ = clip(strings.TrimSpace(text), 300)
	return text
}

// problemView is a sign-in or a link that did not work, and what to do.
type problemView struct {
	Title, What, Todo string
	Good              string // what was done, instead of What
	Link, LinkText    string
}

func (s *server) signInProblem(w http.ResponseWriter, r *http.Request, status int, what, todo string) {
	s.render(w, r, status, "sign_in_problem", page{
		Title: "Sign-in failed", Static: true,
		Body: problemView{Title: "Sign-in failed", What: what, Todo: todo, Link: "/login", LinkText: "Log in"},
	})
}
