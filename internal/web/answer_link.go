package web

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	signed "claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

const (
	// linkSnooze is how long a link snoozes.
	linkSnooze = 2 * time.Hour
	// linkChannel is how an answer by a link is recorded.
	linkChannel = "link"
)

// answerKey is the key of the links, read at the first use.
type answerKey struct {
	mu  sync.Mutex
	key []byte
}

func (s *server) answerKey(ctx context.Context) ([]byte, error) {
	s.linkKey.mu.Lock()
	defer s.linkKey.mu.Unlock()
	if s.linkKey.key == nil {
		key, err := s.Store.AnswerKey(ctx)
		if err != nil {
			return nil, err
		}
		s.linkKey.key = key
	}
	return s.linkKey.key, nil
}

// linkView is the page of a link: what is asked, and one button.
type linkView struct {
	Title   string
	What    string
	Facts   []fact
	Plan    []api.PlanStep
	Button  string // of the answer that the link gives; empty if it needs a login
	Danger  bool
	Login   string // where to sign in to approve
	Approve string // where somebody who is signed in approves
}

// showLink shows what a link of a notice answers. Looking changes nothing: programs that check mail follow links.
func (s *server) showLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	t, ok := s.readLink(w, r)
	if !ok {
		return
	}
	view, ok := s.linkView(w, r, t)
	if !ok {
		return
	}
	s.render(w, r, http.StatusOK, "answer_link", page{Title: view.Title, Body: view, Static: true, Passkeys: view.Login != ""})
}

// readLink checks the token of a link. If it does not work, a page says so.
func (s *server) readLink(w http.ResponseWriter, r *http.Request) (signed.Token, bool) {
	key, err := s.answerKey(r.Context())
	if err != nil {
		s.fail(w, r, "link", err)
		return signed.Token{}, false
	}
	t, err := signed.Verify(key, r.PathValue("token"), s.Clock())
	if _, link := t.LinkRoute(); err == nil && !link {
		err = signed.ErrForged // the token of a button on a phone is not a link
	}
	switch {
	case errors.Is(err, signed.ErrExpired):
		s.linkProblem(w, r, http.StatusGone, "This link has expired.", "Nothing was changed. Sign in to answer.")
		return t, false
	case err != nil:
		if wait := s.wrongGuess(r, "used a link that is not genuine"); wait > 0 {
			s.tooMany(w, r, wait, "Too many wrong links.")
			return t, false
		}
		s.linkProblem(w, r, http.StatusNotFound, "This link is not valid.",
			"Nothing was changed. Copy the whole link from the notice, or sign in.")
		return t, false
	}
	return t, true
}

func (s *server) linkProblem(w http.ResponseWriter, r *http.Request, status int, what, todo string) {
	s.render(w, r, status, "sign_in_problem", page{
		Title: "Link", Static: true,
		Body: problemView{Title: "This link does not work", What: what, Todo: todo, Link: "/login", LinkText: "Sign in"},
	})
}

// linkView returns the page of a link, or responds with why there is nothing to answer.
func (s *server) linkView(w http.ResponseWriter, r *http.Request, t signed.Token) (linkView, bool) {
	switch t.Kind {
	case signed.KindApproval:
		return s.approvalLink(w, r, t)
	case signed.KindIncident:
		i, err := s.Store.Incident(r.Context(), t.Approval)
		if err != nil {
			s.linkGone(w, r, err)
			return linkView{}, false
		}
		if i.ResolvedAt != nil {
			s.linkProblem(w, r, http.StatusConflict, "The incident is over.", "Nothing was changed, and there is nothing to do.")
			return linkView{}, false
		}
		return incidentLink(t, plain(i.Title), []fact{
			{Name: "Service", Value: plain(i.Service)},
			{Name: "Environment", Value: plain(i.Environment)},
			{Name: "Open since", At: ops.Ptr(moment{s.Clock()}.stamp(i.OpenedAt))},
		}), true
	case signed.KindReflex:
		return s.reflexLink(w, r, t)
	case signed.KindCycle:
		return incidentLink(t, fmt.Sprintf("The incidents of cycle %d", t.Approval), nil), true
	}
	s.linkProblem(w, r, http.StatusNotFound, "This link is not valid.", "Nothing was changed.")
	return linkView{}, false
}

func (s *server) linkGone(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ops.ErrNotFound) {
		s.linkProblem(w, r, http.StatusNotFound, "What this link is about is no longer on record.", "Nothing was changed.")
		return
	}
	s.fail(w, r, "link", err)
}

func incidentLink(t signed.Token, what string, facts []fact) linkView {
	v := linkView{Title: "Acknowledge", What: what, Facts: facts, Button: "Acknowledge"}
	if t.Decision == signed.Snooze {
		v.Title, v.Button = "Snooze", "Snooze for 2 hours"
	}
	return v
}

// approvalLink is the page about an approval.
func (s *server) approvalLink(w http.ResponseWriter, r *http.Request, t signed.Token) (linkView, bool) {
	a, err := s.Store.Approval(r.Context(), t.Approval)
	if err != nil {
		s.linkGone(w, r, err)
		return linkView{}, false
	}
	m := moment{s.Clock()}
	if a.Status != ops.ApprovalPending {
		s.linkProblem(w, r, http.StatusConflict, m.alreadyText(api.ApprovalRow(a)), "Nothing was changed. Only the first answer counts.")
		return linkView{}, false
	}
	if a.PlanHash != t.Plan {
		s.linkProblem(w, r, http.StatusConflict, "The plan is not the one that this link was sent for.",
			"Nothing was changed. Sign in and look at the new plan.")
		return linkView{}, false
	}
	full, err := s.approvalView(r.Context(), m, a)
	if err != nil {
		s.fail(w, r, "link", err)
		return linkView{}, false
	}
	v := linkView{Title: "Deny", What: full.Title, Plan: full.Plan, Button: "Deny", Danger: true, Facts: []fact{
		{Name: "Why", Value: plain(a.Reason)},
		{Name: "Environment", Value: a.Environment},
		{Name: "Handler", Value: full.Who},
		{Name: "Asked", At: m.maybe(&a.RequestedAt)},
	}}
	if a.ExpiresAt != nil {
		v.Facts = append(v.Facts, fact{Name: "Expires", At: ops.Ptr(m.until(*a.ExpiresAt))})
	}
	if t.Decision == signed.Approve {
		v = s.approvedAt(r, v, fmt.Sprintf("/approvals/%d/approve", a.ID))
	}
	return v, true
}

// approvedAt leads to the page on which somebody who may approve says yes.
func (s *server) approvedAt(r *http.Request, v linkView, path string) linkView {
	v.Title, v.Button, v.Danger = "Approve", "", false
	if login, in := s.loginOf(r); in && s.logins.loginCaller(login).May(access.Approve) {
		v.Approve = path
	} else {
		v.Login = path
	}
	return v
}

// reflexLink is the page about a repair that may become a reflex.
func (s *server) reflexLink(w http.ResponseWriter, r *http.Request, t signed.Token) (linkView, bool) {
	e, err := s.desk.Reflex(r.Context(), t.Approval)
	if err != nil {
		s.linkGone(w, r, err)
		return linkView{}, false
	}
	if e.State != ops.ReflexAsked {
		s.linkProblem(w, r, http.StatusConflict, plain(fmt.Sprintf("%s switched it %s.", e.Person, e.State)), "Nothing was changed.")
		return linkView{}, false
	}
	v := linkView{Title: "No reflex", What: plain("Make this a reflex? " + e.Words()), Button: "No", Facts: []fact{
		{Name: "When", Value: plain(e.Case())},
		{Name: "Does", Value: plain(strings.Join(e.Does, "; "))},
	}}
	if t.Decision == signed.Approve {
		v = s.approvedAt(r, v, servicePath(e.Environment, e.Service))
	}
	return v, true
}

// answerLink gives the answer of a link. An approval needs more than a link, which others may read on the way.
func (s *server) answerLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	t, ok := s.readLink(w, r)
	if !ok {
		return
	}
	if t.Decision == signed.Approve || r.PostFormValue("confirm") != "yes" {
		s.linkProblem(w, r, http.StatusForbidden, "A link alone does not do this.",
			"Nothing was changed. Open the link in a browser, or sign in.")
		return
	}
	route, _ := t.LinkRoute()
	result, err := s.desk.Reply(r.Context(), signed.Reply{
		Token: t, Code: signed.Code(r.PathValue("token")), Source: linkChannel + " " + rand.Text(), Channel: linkChannel, By: "link to " + route,
		Snooze: linkSnooze, At: s.Clock(),
	})
	if err != nil {
		s.fail(w, r, "link", err)
		return
	}
	if !result.Done {
		s.linkProblem(w, r, http.StatusConflict, plain(result.Text), "Nothing was changed.")
		return
	}
	s.render(w, r, http.StatusOK, "sign_in_problem", page{
		Title: "Done", Static: true, Body: problemView{Title: "Done", Good: plain(result.Text), Todo: "You can close this page."},
	})
}
