package web

import (
	"context"
	"net/http"
	"slices"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

// hostRow is one of the hosts that share the database, with what this page knows about it.
type hostRow struct {
	api.Host
	Here   bool
	Badge  badge
	Change *question // drains it, or lets it work again; nil if it does not run
	Clock  string    // how its clock differs from the database's; empty if it does not
}

// hostRows lists the hosts that use, or used, the database, and reports whether they share it.
func (s *hosts) hostRows(ctx context.Context) (rows []hostRow, shared bool, err error) {
	found, err := s.Store.Journal.Hosts(ctx)
	if err != nil {
		return nil, false, err
	}
	shared = slices.ContainsFunc(found, func(h ops.Host) bool { return h.ExpiresAt != nil })
	for _, h := range found {
		here := h.Name == s.Host
		if !shared && here { // without a lease its row does not say that it works, but this page does
			h.Alive = true
			if h.SeenAt != nil {
				h.SeenAt = ops.Ptr(s.Clock())
			}
		}
		row := hostRow{Host: api.HostRow(h), Here: here, Badge: hostBadge(h)}
		if h.Alive {
			row.Change = drainQuestion(h)
		}
		if h.Alive && h.ClockWrong() {
			row.Clock = ops.ClockDifference(h.ClockAhead) + " the database's clock"
		}
		rows = append(rows, row)
	}
	return rows, shared, nil
}

// drainQuestion asks before a host is drained, or works again.
func drainQuestion(h ops.Host) *question {
	name := plain(h.Name)
	q := &question{
		ID: (serviceKey{"host", name}).element(), Button: "Drain", Icon: "pause", Style: "plain", Title: "Drain " + name + "?",
		Text: "It takes no new cycles. Running cycles end, or are handed over when their session ends. " +
			"It takes cycles again after its next start, or when you resume it.",
		Action: "/hosts/drain", Yes: "Drain it", No: "Cancel", Danger: true, Hidden: map[string]string{"host": h.Name},
	}
	if h.Draining {
		q.Button, q.Icon, q.Title, q.Danger = "Resume", "play", "Let "+name+" take cycles again?", false
		q.Text, q.Action, q.Yes = "It takes new cycles at once.", "/hosts/resume", "Resume it"
	}
	return q
}

type hostsView struct {
	Hosts  []hostRow
	Shared bool
}

func (s *hosts) hostsPage(r *http.Request) (page, error) {
	rows, shared, err := s.hostRows(r.Context())
	p := page{Title: "Hosts", Nav: "hosts", Body: hostsView{rows, shared}}
	switch queried(r, "done") {
	case "drain":
		p.Flash = "The host takes no new cycles. When none runs any more, it can be stopped."
	case "resume":
		p.Flash = "The host takes cycles again."
	}
	return p, err
}

// drainHost asks a host to take no new cycles, or to take them again.
func (s *hosts) drainHost(r *http.Request) (string, error) {
	word := r.PathValue("change")
	if word != "drain" && word != "resume" {
		return "", noPage()
	}
	err := s.Store.Journal.Drain(r.Context(), r.PostFormValue("host"), word == "drain")
	if err == nil && s.DrainAsked != nil {
		s.DrainAsked(r.Context())
	}
	s.Hub.Nudge()
	return "/hosts?done=" + word, err
}

// stopAll stops everything.
func (s *hosts) stopAll(r *http.Request) (string, error) {
	_, err := s.desk.StopAll(r.Context(), by(r), reason(r))
	return "/", err
}

// resumeAll lets everything start again.
func (s *hosts) resumeAll(r *http.Request) (string, error) {
	_, err := s.desk.ResumeAll(r.Context(), by(r), reason(r))
	return "/", err
}

func hostBadge(h ops.Host) badge {
	switch {
	case h.Alive && h.Draining:
		return badge{"warn", "clock", "Draining"}
	case h.Alive:
		return badge{"ok", "circle-check", "Alive"}
	case h.ExpiresAt != nil:
		return badge{"bad", "octagon-x", "Not responding"}
	}
	return badge{"unknown", "square", "Stopped"}
}
