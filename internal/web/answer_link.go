package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/access"
	"claudeops/internal/api"
	"claudeops/internal/desk"
	signed "claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/story"
)

// linkChannel is how an answer by a link is recorded.
const linkChannel = "link"

// answerKey is the key of the links, read at the first use.
type answerKey struct {
	mu  sync.Mutex
	key []byte
}

func (s *links) answerKey(ctx context.Context) ([]byte, error) {
	s.key.mu.Lock()
	defer s.key.mu.Unlock()
	if s.key.key == nil {
		key, err := s.Store.People.AnswerKey(ctx)
		if err != nil {
			return nil, err
		}
		s.key.key = key
	}
	return s.key.key, nil
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
func (s *links) showLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	t, err := s.readLink(r)
	var view linkView
	if err == nil {
		view, err = s.linkView(r, t)
	}
	if err != nil {
		s.linkFailed(w, r, err)
		return
	}
	s.render(w, r, http.StatusOK, "answer_link", page{Title: view.Title, Body: view, Static: true})
}

// linkProblem is a link that does not work, and what to do.
type linkProblem struct {
	status     int
	what, todo string
	wait       time.Duration // there were too many wrong ones
}

func (p linkProblem) Error() string { return p.what }

// readLink checks the token of a link.
func (s *links) readLink(r *http.Request) (signed.Token, error) {
	key, err := s.answerKey(r.Context())
	if err != nil {
		return signed.Token{}, err
	}
	t, err := signed.Verify(key, r.PathValue("token"), s.Clock())
	if _, link := t.LinkRoute(); err == nil && !link {
		err = signed.ErrForged // the token of a button on a phone is not a link
	}
	switch {
	case errors.Is(err, signed.ErrExpired):
		return t, linkProblem{http.StatusGone, "This link has expired.", "Nothing was changed. Sign in to answer.", 0}
	case err != nil:
		return t, linkProblem{
			http.StatusNotFound, "This link is not valid.", "Nothing was changed. Copy the whole link from the notice, or sign in.",
			s.door.wrongGuess(r, "used a link that is not genuine"),
		}
	}
	return t, nil
}

// linkFailed says why a link does not work.
func (s *links) linkFailed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, ops.ErrNotFound) {
		err = linkProblem{http.StatusNotFound, "What this link is about is no longer on record.", "Nothing was changed.", 0}
	}
	var p linkProblem
	switch {
	case !errors.As(err, &p):
		s.fail(w, r, "link", err)
	case p.wait > 0:
		s.door.tooMany(w, r, p.wait, "Too many wrong links.")
	default:
		s.render(w, r, p.status, "sign_in_problem", page{
			Title: "Link", Static: true,
			Body: problemView{Title: "This link does not work", What: p.what, Todo: p.todo, Link: "/login", LinkText: "Sign in"},
		})
	}
}

// linkView returns the page of a link, or why there is nothing to answer.
func (s *links) linkView(r *http.Request, t signed.Token) (linkView, error) {
	switch t.Subject.Kind {
	case signed.KindApproval:
		return s.approvalLink(r, t)
	case signed.KindIncident:
		i, err := s.Store.People.Incident(r.Context(), t.Subject.ID)
		if err == nil && i.ResolvedAt != nil {
			err = linkProblem{http.StatusConflict, "The incident is over.", "Nothing was changed, and there is nothing to do.", 0}
		}
		return incidentLink(t, plain(i.Title), []fact{
			{Name: "Service", Value: plain(i.Service)},
			{Name: "Environment", Value: plain(i.Environment)},
			{Name: "Open since", At: ops.Ptr(moment{s.Clock()}.stamp(i.OpenedAt))},
		}), err
	case signed.KindReflex:
		return s.reflexLink(r, t)
	case signed.KindCycle:
		return incidentLink(t, fmt.Sprintf("The incidents of cycle %d", t.Subject.ID), nil), nil
	}
	return linkView{}, linkProblem{http.StatusNotFound, "This link is not valid.", "Nothing was changed.", 0}
}

func incidentLink(t signed.Token, what string, facts []fact) linkView {
	v := linkView{Title: "Acknowledge", What: what, Facts: facts, Button: "Acknowledge"}
	if t.Decision == signed.Snooze {
		v.Title, v.Button = "Snooze", "Snooze for 2 hours"
	}
	return v
}

// approvalLink is the page about an approval.
func (s *links) approvalLink(r *http.Request, t signed.Token) (linkView, error) {
	a, err := s.Store.People.Approval(r.Context(), t.Subject.ID)
	m := moment{s.Clock()}
	switch {
	case err != nil:
		return linkView{}, err
	case a.Status != ops.ApprovalPending:
		return linkView{}, linkProblem{
			http.StatusConflict, m.alreadyText(api.ApprovalRow(a)), "Nothing was changed. Only the first answer counts.", 0,
		}
	case a.PlanHash != t.Plan:
		return linkView{}, linkProblem{
			http.StatusConflict, "The plan is not the one that this link was sent for.", "Nothing was changed. Sign in and look at the new plan.", 0,
		}
	}
	full, err := s.approvals.approvalView(r.Context(), m, a)
	if err != nil {
		return linkView{}, err
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
	return v, nil
}

// approvedAt leads to the page on which somebody who may approve says yes.
func (s *links) approvedAt(r *http.Request, v linkView, path string) linkView {
	v.Title, v.Button, v.Danger = "Approve", "", false
	if login, in := s.door.loginOf(r); in && s.door.logins.loginCaller(login).May(access.Approve) {
		v.Approve = path
	} else {
		v.Login = path
	}
	return v
}

// reflexLink is the page about a repair that may become a reflex.
func (s *links) reflexLink(r *http.Request, t signed.Token) (linkView, error) {
	e, err := s.desk.Reflex(r.Context(), t.Subject.ID)
	if err == nil && e.State != ops.ReflexAsked {
		err = linkProblem{http.StatusConflict, plain(fmt.Sprintf("%s switched it %s.", e.Person, e.State)), "Nothing was changed.", 0}
	}
	if err != nil {
		return linkView{}, err
	}
	v := linkView{Title: "No reflex", What: plain("Make this a reflex? " + e.Words()), Button: "No", Facts: []fact{
		{Name: "When", Value: plain(e.Case())},
		{Name: "Does", Value: plain(strings.Join(e.Does, "; "))},
	}}
	if t.Decision == signed.Approve {
		v = s.approvedAt(r, v, servicePath(e.Environment, e.Service))
	}
	return v, nil
}

// answerLink gives the answer of a link. An approval needs more than a link, which others may read on the way.
func (s *links) answerLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	t, err := s.readLink(r)
	if err == nil && (t.Decision == signed.Approve || r.PostFormValue("confirm") != "yes") {
		err = linkProblem{
			http.StatusForbidden, "A link alone does not do this.", "Nothing was changed. Open the link in a browser, or sign in.", 0,
		}
	}
	var result signed.Result
	if err == nil {
		route, _ := t.LinkRoute()
		result, err = s.desk.Reply(r.Context(), signed.Reply{
			Token: t, Code: signed.Code(r.PathValue("token")), Source: linkChannel + " " + rand.Text(), Channel: linkChannel, By: "link to " + route,
		})
		if err == nil && !result.Done {
			err = linkProblem{http.StatusConflict, plain(result.Text), "Nothing was changed.", 0}
		}
	}
	if err != nil {
		s.linkFailed(w, r, err)
		return
	}
	s.render(w, r, http.StatusOK, "sign_in_problem", page{
		Title: "Done", Static: true, Body: problemView{Title: "Done", Good: plain(result.Text), Todo: "You can close this page."},
	})
}

func (s *notifications) notifications(r *http.Request) (page, error) {
	status := ops.NoticeStatus(cmp.Or(queried(r, "status"), "all"))
	view, err := listOf(s.site, r, func(ctx context.Context, before int64, limit int) ([]ops.Notice, error) {
		f := store.NoticeFilter{Status: status, Before: before, Limit: limit}
		if status == "all" {
			f.Status = ""
		}
		return s.Store.People.NoticeList(ctx, f)
	}, func(n ops.Notice) int64 { return n.ID }, api.NotificationRow)
	for _, one := range []struct {
		status      ops.NoticeStatus
		word, empty string
	}{
		{"all", "All", "No notifications yet"},
		{ops.NoticeDead, "Failed", "No failed notifications"},
		{ops.NoticePending, "Waiting", "No waiting notifications"},
		{ops.NoticeSent, "Sent", "No sent notifications yet"},
		{ops.NoticeSkipped, "No target", "No notifications without a target"},
	} {
		current := one.status == status
		if current {
			view.Tab, view.Empty = string(status), one.empty
		}
		view.Tabs = append(view.Tabs, option{Word: one.word, Path: "/notifications?status=" + string(one.status), Current: current})
	}
	if view.Tab == "" || errors.Is(err, ops.ErrNotFound) {
		return page{}, noSuch("No such list of notifications. A status is all, dead, pending, sent or skipped.")
	}
	p := page{Title: "Notifications", Nav: "events", Body: struct {
		listView[api.Notification]
		Targets []string
		MayAdd  bool
		Held    []desk.Target
	}{view, s.Targets, s.mayConfigure(r), s.held(r)}}
	switch queried(r, "done") {
	case "again":
		p.Flash = "The notification is sent again now."
	case "test":
		p.Flash = "A test is on its way. Who got it is in the list below."
	}
	return p, err
}

// held are the notification targets that a visitor may remove.
func (s *notifications) held(r *http.Request) []desk.Target {
	if !s.mayConfigure(r) {
		return nil
	}
	held, err := s.desk.Removable()
	if err != nil {
		s.Logger.WarnContext(r.Context(), "read notification targets failed", "error", err)
	}
	return held
}

// testNotice sends a test to whom every other notice of its kind goes.
func (s *notifications) testNotice(r *http.Request) (string, error) {
	return "/notifications?status=all&done=test", s.desk.TestNotification(r.Context())
}

// untold says whether the newest notices reached nobody; empty if they reached somebody.
func (s *overview) untold(ctx context.Context) (string, error) {
	const looked = 20
	notices, err := s.Store.People.NoticeList(ctx, store.NoticeFilter{Limit: looked})
	if err != nil {
		return "", fmt.Errorf("list notices: %w", err)
	}
	slices.Reverse(notices)
	return story.ToldBy(notices).Nobody, nil
}

// retryNotice puts a failed notification back into the outbox.
func (s *notifications) retryNotice(r *http.Request) (string, error) {
	return "/notifications?status=pending&done=again", s.desk.RetryNotification(r.Context(), by(r), rowID(r))
}
