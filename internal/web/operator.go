package web

import (
	"net/http"
	"strconv"
	"strings"
)

// operatorRoutes are the pages on which people decide, and those that tell them what they need for it. What changes
// something is posted; the same address opened by a link only asks.
func (s *server) operatorRoutes(pages *http.ServeMux) {
	pages.HandleFunc("GET /incidents", s.incidents)
	pages.HandleFunc("GET /incidents/{id}", s.incident)
	pages.HandleFunc("GET /incidents/{id}/{deed}", s.askIncident)
	pages.HandleFunc("POST /incidents/{id}/{deed}", s.changeIncident)
	pages.HandleFunc("GET /approvals/{id}", s.approval)
	pages.HandleFunc("GET /approvals/{id}/{answer}", s.approval)
	pages.HandleFunc("POST /approvals/{id}/{answer}", s.answer)
	pages.HandleFunc("GET /services", s.servicesPage)
	pages.HandleFunc("GET /services/cooldown", s.askCooldown)
	pages.HandleFunc("POST /services/cooldown", s.clearCooldown)
	pages.HandleFunc("GET /silences", s.silences)
	pages.HandleFunc("POST /silences", s.addSilence)
	pages.HandleFunc("GET /silences/{id}/end", s.askSilence)
	pages.HandleFunc("POST /silences/{id}/end", s.endSilence)
	pages.HandleFunc("GET /notifications", s.notifications)
	pages.HandleFunc("POST /notifications/{id}/retry", s.retryNotice)
	pages.HandleFunc("GET /costs", s.costs)
	pages.HandleFunc("GET /costs.csv", s.costsFile)
	pages.HandleFunc("GET /events", s.events)
	pages.HandleFunc("GET /memory", s.memory)
	pages.HandleFunc("POST /memory", s.addMemory)
	pages.HandleFunc("GET /memory/{id}/remove", s.askMemory)
	pages.HandleFunc("POST /memory/{id}/remove", s.removeMemory)
	pages.HandleFunc("GET /config", s.config)
}

const (
	maxReason = 500
	listed    = 25 // rows of a page
)

// person is the name under which what a page does is recorded.
func (s *server) person(r *http.Request) string { return caller(r).Name }

// rowID is the number in the address.
func rowID(r *http.Request) (int64, bool) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return id, err == nil && id > 0
}

// cursor is where a list goes on: the last number of the page before.
func cursor(r *http.Request) (int64, bool) {
	text := r.URL.Query().Get("cursor")
	if text == "" {
		return 0, true
	}
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0
}

// reason is what somebody wrote beside a button.
func reason(r *http.Request) string {
	text, _ := clip(strings.TrimSpace(plain(r.PostFormValue("reason"))), maxReason)
	return text
}

// queried is a field of a filter form.
func queried(r *http.Request, name string) string {
	text, _ := clip(strings.TrimSpace(plain(r.URL.Query().Get(name))), 200)
	return text
}

// pager leads through a list.
type pager struct {
	Paged  bool
	Newest string
	Older  string
}

func paging(r *http.Request, older int64) pager {
	query := r.URL.Query()
	p := pager{Paged: query.Get("cursor") != ""}
	at := *r.URL
	query.Del("cursor")
	at.RawQuery = query.Encode()
	p.Newest = at.RequestURI()
	if older > 0 {
		query.Set("cursor", strconv.FormatInt(older, 10))
		at.RawQuery = query.Encode()
		p.Older = at.RequestURI()
	}
	return p
}

// with is the address of the page with one field of its query changed.
func with(r *http.Request, name, value string) string {
	query := r.URL.Query()
	query.Del("cursor")
	if value == "" {
		query.Del(name)
	} else {
		query.Set(name, value)
	}
	at := *r.URL
	at.RawQuery = query.Encode()
	return at.RequestURI()
}

// option is one of several views of a page, as a link.
type option struct {
	Word    string
	Path    string
	Count   int
	Current bool
}

// chosen are the choices of a select; the first one means all.
func chosen(value, all string, choices ...choice) []choice {
	out := []choice{{Word: all, Chosen: value == ""}}
	for _, c := range choices {
		c.Chosen = c.Value == value
		out = append(out, c)
	}
	return out
}

func (s *server) environmentChoices(value string) []choice {
	var out []choice
	for _, e := range s.Environments {
		out = append(out, choice{Value: e.Name, Word: e.Name})
	}
	return chosen(value, "All environments", out...)
}

// paged cuts a list of which one more than a page was asked for, and says where the next page is.
func paged[T any](r *http.Request, found []T, id func(T) int64) ([]T, pager) {
	if len(found) <= listed {
		return found, paging(r, 0)
	}
	return found[:listed], paging(r, id(found[listed-1]))
}
