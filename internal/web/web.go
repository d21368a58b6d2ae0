package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/decide/rehearse"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/web/login"
)

// Options are what the pages and the API need.
type Options struct {
	api.Options // times are shown in the location of its clock
	// Token gives access to the pages after a login and to the API as a bearer token. An empty token admits nobody.
	Token string
	// OperatorToken is true if the operator set Token; otherwise the daemon made it.
	OperatorToken bool
	// OIDC signs people in with an identity provider; nil if there is none.
	OIDC *login.Provider
	// Refuse returns why the sender of a request is refused before anything else is looked at, or an empty string.
	Refuse func(r *http.Request) string
	// StrictApprovals makes approvals need the token that the operator set: nothing else separates agents from the operator.
	StrictApprovals bool
	// Host is the name of this host among those that share the database.
	Host string
	// ListenHosts are the host names that requests may use, besides loopback names. An address that means every
	// interface allows every name; the token protects then.
	ListenHosts []string
	// Settings is the effective configuration as its page shows it, secrets masked.
	Settings []Setting
	// Try looks once by the probe that a draft adds; false: it adds none that can look. Nil if nobody can.
	Try func(ctx context.Context, d desk.Draft) (ops.Check, bool)
	// Rehearse says what a draft of the configuration would have changed; nil if nobody can.
	Rehearse func(ctx context.Context, d desk.Draft) (rehearse.Report, error)
	// Hub tells open pages that something was written; they also poll, a little later. Nil: only these pages write.
	Hub *Hub
	// Webhooks receives alerts of other systems under /api/v1/webhooks/. It authenticates the senders itself.
	Webhooks http.Handler
	// Redact removes secrets from what jobs send; nil leaves it as it is.
	Redact func(string) string
	// KeepTranscripts is how long output is kept; zero means no limit.
	KeepTranscripts time.Duration
	// Done ends the streams of open pages, so that they do not delay a shutdown; nil means never.
	Done <-chan struct{}
	// Streams limits the number of open streams; zero means the usual limit.
	Streams int
	// Targets are the names of the notification targets.
	Targets []string
	// Trouble returns why no session can start, or an empty string; every page shows it.
	Trouble func() string
	// DrainAsked is called after a host was asked to drain or to work again; nil if nobody has to know.
	DrainAsked func(ctx context.Context)
	// HideSetup keeps the steps of the set-up from the overview: nobody sets up a demonstration.
	HideSetup bool
}

// site is what all pages stand on.
type site struct {
	Options
	desk     *desk.Desk
	pages    pageSet
	assets   assetSet
	counters *counterCache
	markdown *markdown
}

// The pages, by what they are about.
type (
	actions       struct{ *site }
	approvals     struct{ *site }
	configuration struct{ *site }
	costs         struct{ *site }
	cycles        struct{ *site }
	events        struct{ *site }
	hosts         struct{ *site }
	memories      struct{ *site }
	notifications struct{ *site }
	sessions      struct{ *site }
	silences      struct{ *site }

	incidents struct {
		*site
		approvals *approvals
	}
	links struct {
		*site
		door      *door
		approvals *approvals
		key       answerKey
	}
	overview struct {
		*site
		services *services
	}
	services struct {
		*site
		list serviceList
	}
	settings struct {
		*site
		typed typedSecrets
	}
)

// New makes the handler that serves everything: pages, assets, API, health.
func New(o Options) http.Handler {
	if o.Hub == nil {
		o.Hub = NewHub()
	}
	o.Streams = min(cmp.Or(o.Streams, maxStreams), maxStreams)
	d := &door{logins: newLogins(o), rateLimits: newRateLimits()}
	o.Changed, o.WrongTokens = o.Hub.Nudge, d.wrongTokens.Load
	d.site = newSite(o)
	return d.secure(d.site.routes(d))
}

func newSite(o Options) *site {
	o.Options = o.Filled()
	s := &site{Options: o, assets: loadAssets(), markdown: newMarkdown()}
	s.counters = &counterCache{store: o.Store.Reports, state: s.hostState}
	s.desk = &desk.Desk{
		Store: o.Store, Control: o.Control, Clock: o.Clock, Environments: o.Environments, Changed: o.Changed, Settings: o.ConfigFile,
	}
	s.pages = loadPages(s.assets, s.Clock, s.prose)
	return s
}

// routes serves the pages and the API.
func (s *site) routes(d *door) http.Handler {
	pages := http.NewServeMux()
	approvals, services := &approvals{s}, &services{site: s}
	for _, noun := range []interface{ routes(pages *http.ServeMux) }{
		d, approvals, services, &overview{s, services}, &incidents{s, approvals}, &links{site: s, door: d, approvals: approvals},
		&settings{site: s, typed: typedSecrets{held: map[string]typedSecret{}}}, &cycles{s}, &sessions{s}, &actions{s}, &silences{s}, &hosts{s},
		&notifications{s}, &costs{s}, &events{s}, &memories{s}, &configuration{s},
	} {
		noun.routes(pages)
	}
	pages.HandleFunc("POST /theme", s.theme)
	pages.HandleFunc("GET /assets/{file}", s.assets.serve)
	pages.HandleFunc("GET /favicon.ico", s.assets.favicon)

	machine := api.New(s.Options.Options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isAPI(r.URL.Path) {
			machine.ServeHTTP(w, r)
			return
		}
		if _, pattern := pages.Handler(r); pattern != "" {
			if err := r.ParseForm(); err != nil {
				s.errorPage(w, r, http.StatusBadRequest, "The form could not be read. Nothing was changed.")
				return
			}
			pages.ServeHTTP(w, s.withCounts(r))
			return
		}
		if allowed := api.OtherMethods(pages, r); len(allowed) > 0 {
			w.Header().Set("Allow", allowed[0])
			s.errorPage(w, r, http.StatusMethodNotAllowed, fmt.Sprintf("This address accepts %s only.", allowed[0]))
			return
		}
		s.errorPage(w, r, http.StatusNotFound, "No page at this address.")
	})
}

// Changes are made by POST; a GET of the same URL, for example from a link, only asks for confirmation.

func (s *overview) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /{$}", s.page("overview", "overview", s.overview))
	pages.HandleFunc("GET /search", s.page("search", "search", s.search))
}

func (s *cycles) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /sessions", s.page("cycles", "list of cycles", s.cycles)) // the same list: programs and people know this address
	pages.HandleFunc("GET /cycles", s.page("cycles", "list of cycles", s.cycles))
	pages.HandleFunc("GET /cycles/{id}", s.page("cycle", "cycle", s.cycle))
	pages.HandleFunc("POST /cycles/{id}/stop", s.does("cycle", s.stopCycle))
	pages.HandleFunc("POST /cycles/{id}/run", s.does("cycle", s.runAgain))
	pages.HandleFunc("POST /run", s.does("cycle", s.run))
}

func (s *sessions) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /sessions/{id}", s.page("session", "session", s.session))
	pages.HandleFunc("GET /sessions/{id}/raw", s.rawTranscript)
	pages.HandleFunc("GET /sessions/{id}/transcript", s.transcriptPiece)
	pages.HandleFunc("GET /sessions/{id}/lines/{seq}", s.rawLine)
	pages.HandleFunc("GET /sessions/{id}/lines/{seq}/{piece}", s.rawLine)
	pages.HandleFunc("GET /sessions/{id}/stream", s.sessionStream)
	pages.HandleFunc("GET /stream", s.stream)
	pages.HandleFunc("POST /sessions/{id}/stop", s.does("session", s.stop))
}

func (s *incidents) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /incidents", s.page("incidents", "list of incidents", s.incidents))
	pages.HandleFunc("GET /incidents/{id}", s.page("incident", "incident", without(s.incident)))
	pages.HandleFunc("GET /incidents/{id}/report.md", s.incidentReport)
	pages.HandleFunc("POST /incidents/{id}/run", s.does("incident", s.runIncident))
	pages.HandleFunc("GET /incidents/{id}/{action}", s.page("incident", "incident", s.askIncident))
	pages.HandleFunc("POST /incidents/{id}/{action}", s.form("incident", "incident", "Nothing was changed.", s.changeIncident, s.incident))
}

func (s *approvals) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /approvals/{id}", s.page("approval", "approval", s.approval))
	pages.HandleFunc("GET /approvals/{id}/{answer}", s.page("approval", "approval", s.approval))
	pages.HandleFunc("POST /approvals/{id}/{answer}", s.form("approval", "approval", "Nothing was changed.", s.answer, s.unanswered))
	pages.HandleFunc("GET /approvals", s.page("approvals", "list of approvals", s.approvals))
}

func (s *services) routes(pages *http.ServeMux) {
	pages.HandleFunc("POST /services/trust", s.does("trust", s.setTrust))
	pages.HandleFunc("POST /services/update", s.does("update", s.updateService))
	pages.HandleFunc("POST /reflexes/{id}/enable", s.switchReflex(ops.ReflexOn))
	pages.HandleFunc("POST /reflexes/{id}/disable", s.switchReflex(ops.ReflexIsOff))
	pages.HandleFunc("GET /services", s.page("services", "list of services", s.servicesPage))
	pages.HandleFunc("GET /services/{environment}/{name}", s.page("service", "service", s.servicePage))
	pages.HandleFunc("GET /services/page", s.page("service", "service", s.servicePage))
	pages.HandleFunc("GET /services/cooldown", s.page("cooldown_clear", "cooldown", without(s.cooldown)))
	pages.HandleFunc("POST /services/cooldown", s.form("cooldown_clear", "cooldown", "Nothing was changed.", s.clearCooldown, s.cooldown))
}

func (s *actions) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /actions", s.page("actions", "list of actions", without(s.actions)))
	pages.HandleFunc("POST /actions", s.form("actions", "action", "Nothing was run.", s.runAction, s.actions))
	pages.HandleFunc("GET /actions/{id}", s.page("action", "action", without(s.action)))
	pages.HandleFunc("POST /actions/{id}/undo", s.form("action", "action", "Nothing was run.", s.undoAction, s.action))
}

func (s *silences) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /silences", s.page("silences", "page of silences", without(s.silences)))
	pages.HandleFunc("POST /silences", s.form("silences", "silence", "Nothing was added.", s.addSilence, s.silences))
	pages.HandleFunc("POST /silences/{id}/end", s.does("silence", s.endSilence))
}

func (s *hosts) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /hosts", s.page("hosts", "list of hosts", s.hostsPage))
	pages.HandleFunc("POST /hosts/{change}", s.does("host", s.drainHost))
	pages.HandleFunc("POST /stop", s.does("stop", s.stopAll))
	pages.HandleFunc("POST /resume", s.does("stop", s.resumeAll))
}

func (s *notifications) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /notifications", s.page("notifications", "list of notifications", s.notifications))
	pages.HandleFunc("POST /notifications/test", s.does("test notification", s.testNotice))
	pages.HandleFunc("POST /notifications/{id}/retry", s.does("notification", s.retryNotice))
}

func (s *costs) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /costs", s.page("costs", "costs", s.costs))
}

func (s *events) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /guard", s.page("guard", "list of decisions", s.guardPage))
	pages.HandleFunc("GET /events", s.page("events", "list of events", s.events))
}

func (s *memories) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /memory", s.page("memory", "page of memories", without(s.memory)))
	pages.HandleFunc("POST /memory", s.form("memory", "memory", "Nothing was added.", s.addMemory, s.memory))
	pages.HandleFunc("POST /memory/{id}/remove", s.does("memory", s.removeMemory))
}

func (s *configuration) routes(pages *http.ServeMux) {
	pages.HandleFunc("POST /config/tokens", s.makeToken)
	pages.HandleFunc("POST /config/tokens/{name}/revoke", s.does("token", s.revokeToken))
	pages.HandleFunc("GET /config", s.page("config", "configuration", func(r *http.Request) (page, error) {
		return s.config(r, accessForm{})
	}))
}

func (s *links) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET "+linkPath+"{token}", s.showLink)
	pages.HandleFunc("POST "+linkPath+"{token}", s.answerLink)
}

func (s *door) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /login", s.loginPage)
	pages.HandleFunc("POST /login", s.login)
	pages.HandleFunc("POST /logout", s.logout)
	pages.HandleFunc("GET "+oidcPath, s.oidcBegin)
	pages.HandleFunc("GET "+oidcCallback, s.oidcReturn)
}

func (s *settings) routes(pages *http.ServeMux) {
	pages.HandleFunc("GET /settings/services/new", s.showSetting(newService))
	pages.HandleFunc("POST /settings/services/new", s.changeSetting(newService))
	pages.HandleFunc("GET /settings/services/{name}/probes/new", s.showSetting(newProbe))
	pages.HandleFunc("POST /settings/services/{name}/probes/new", s.changeSetting(newProbe))
	pages.HandleFunc("GET /settings/services/{name}/probes/{number}", s.showSetting(oldProbe))
	pages.HandleFunc("POST /settings/services/{name}/probes/{number}", s.changeSetting(oldProbe))
	pages.HandleFunc("GET /settings/services/{name}/probes/{number}/remove", s.showSetting(noProbe))
	pages.HandleFunc("POST /settings/services/{name}/probes/{number}/remove", s.changeSetting(noProbe))
	pages.HandleFunc("GET /settings/services/{name}/remove", s.showSetting(noService))
	pages.HandleFunc("POST /settings/services/{name}/remove", s.changeSetting(noService))
	pages.HandleFunc("GET /settings/notifications/{id}/remove", s.showSetting(noTarget))
	pages.HandleFunc("POST /settings/notifications/{id}/remove", s.changeSetting(noTarget))
	pages.HandleFunc("GET /settings/notifications/new", s.showSetting(newTarget))
	pages.HandleFunc("POST /settings/notifications/new", s.changeSetting(newTarget))
	pages.HandleFunc("GET /settings/trust", s.showSetting(newTrust))
	pages.HandleFunc("POST /settings/trust", s.changeSetting(newTrust))
}
