package web

import (
	"strings"

	"claudeops/internal/ops"
)

type eventView struct {
	ID        int64
	Badge     badge
	At        stamp
	Kind      string
	Service   string
	Message   string
	Session   ops.SessionID
	Cycle     ops.CycleID
	CyclePath string
}

func (m moment) event(e ops.Event) eventView {
	view := eventView{
		ID: e.ID, Badge: levelBadge(e.Level), At: m.stamp(e.At), Kind: plain(string(e.Kind)), Service: plain(e.Service),
		Message: plain(e.Message),
	}
	if view.Service != "" { // its name stands before the message already
		view.Message = strings.TrimPrefix(view.Message, view.Service+" ")
	}
	if e.SessionID != nil {
		view.Session = *e.SessionID
	}
	if e.CycleID != nil {
		view.Cycle, view.CyclePath = *e.CycleID, cyclePath(*e.CycleID)
	}
	return view
}
