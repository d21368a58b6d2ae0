package web

import (
	"net/http"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

type approvalsView struct {
	Pending  []api.Approval
	Answered []answeredView
	Several  bool
	Pager    pager
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
		view.Pending = api.Rows(pending, api.ApprovalRow)
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
