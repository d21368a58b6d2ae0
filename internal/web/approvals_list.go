package web

import (
	"net/http"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

type approvalsView struct {
	Pending  []approvalRow
	Answered []answeredView
	Several  bool
	Pager    pager
}

// approvalRow is an approval that waits for an answer.
type approvalRow struct {
	ID          int64
	Title       string
	Environment string
	Why         string
	Cycle       cycleRef
	Asked       stamp
	Expires     *stamp
}

// approvals lists the questions to people: first those that wait for an answer, then the answered ones.
func (s *server) approvals(w http.ResponseWriter, r *http.Request) {
	before, ok := cursor(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such page of approvals.")
		return
	}
	m := moment{s.Clock()}
	view := approvalsView{Several: len(s.Environments) > 1}
	if before == 0 {
		pending, err := s.Store.Approvals(r.Context(), store.ApprovalFilter{Status: ops.ApprovalPending, Limit: 200})
		if err != nil {
			s.fail(w, r, "list of approvals", err)
			return
		}
		for _, a := range pending {
			view.Pending = append(view.Pending, m.approvalRow(a))
		}
	}
	found, err := s.Store.Approvals(r.Context(), store.ApprovalFilter{Before: before, Limit: listed + 1})
	if err != nil {
		s.fail(w, r, "list of approvals", err)
		return
	}
	found, view.Pager = paged(r, found, func(a ops.Approval) int64 { return a.ID })
	for _, a := range found {
		if a.Status != ops.ApprovalPending {
			view.Answered = append(view.Answered, m.answeredView(a))
		}
	}
	s.render(w, r, http.StatusOK, "approvals", page{Title: "Approvals", Nav: "approvals", Body: view})
}

func (m moment) approvalRow(a ops.Approval) approvalRow {
	row := approvalRow{
		ID: a.ID, Title: questionTitle(a, nil), Environment: a.Environment, Why: firstLine(a.Reason, 300), Cycle: refer(a.CycleID),
		Asked: m.stamp(a.RequestedAt),
	}
	if a.ExpiresAt != nil {
		at := m.stamp(*a.ExpiresAt)
		at.Text = "now"
		if left := a.ExpiresAt.Sub(m.now); left > 0 {
			at.Text = "in " + span(left)
		}
		row.Expires = &at
	}
	return row
}
