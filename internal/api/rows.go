package api

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Every resource has one row type, made by one function from what the store returns. The API sends these rows, and the
// command line prints and reads the same ones. A row is defined beside the endpoints that send it.

// Document is a stored document: its JSON as it was written, or a JSON string where the stored text is not JSON.
type Document []byte

// documentOf reads a stored document.
func documentOf(stored []byte) Document {
	if len(stored) == 0 {
		return nil
	}
	valid := []byte(strings.ToValidUTF8(string(stored), "\uFFFD"))
	if json.Valid(valid) {
		return valid
	}
	quoted, err := json.Marshal(string(valid))
	if err != nil {
		return nil // a string always has a JSON form
	}
	return quoted
}

// Text is the document as a person reads it: its JSON, or the text that is not JSON.
func (d Document) Text() string {
	var text string
	if json.Unmarshal(d, &text) == nil {
		return text
	}
	return string(d)
}

// MarshalJSON writes the document as it is; an empty one is null.
func (d Document) MarshalJSON() ([]byte, error) {
	if len(d) == 0 {
		return []byte("null"), nil
	}
	return d, nil
}

// UnmarshalJSON keeps the document as it is written.
func (d *Document) UnmarshalJSON(text []byte) error {
	*d = nil
	if !bytes.Equal(text, []byte("null")) {
		*d = bytes.Clone(text)
	}
	return nil
}

// Schema says that a document can be any JSON.
func (Document) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// SessionReportRow is a whole session.
func SessionReportRow(s ops.Session) SessionReport {
	return SessionReport{
		Session:      SessionRow(s),
		OutcomeJSON:  documentOf(s.OutcomeJSON),
		HandoffJSON:  documentOf(s.HandoffJSON),
		HandoffError: text(s.HandoffError),
	}
}

// CycleReportRow is a cycle with its policy and everything that was decided in it.
func CycleReportRow(c ops.Claimed, verified []ops.Verification) CycleReport {
	j := c.Journal
	approvalRow := func(a ops.Approval) Approval {
		a.States = a.Progress(j.Runs)
		return ApprovalRow(a)
	}
	return CycleReport{
		Cycle:  CycleRow(store.CycleSummary{Cycle: c.Cycle, Sessions: j.Sessions}),
		Policy: c.Cycle.Policy, Result: documentOf(c.Cycle.Result),
		Escalations: Rows(j.Decisions, escalationRow), Recoveries: Rows(j.Recoveries, recoveryRow),
		Verifications: Rows(verified, verificationRow), Approvals: Rows(j.Approvals, approvalRow),
	}
}

// Rows makes a row of each stored item. It is never nil, so that an empty list is printed as one.
func Rows[S, R any](stored []S, row func(S) R) []R {
	out := make([]R, 0, len(stored))
	for _, s := range stored {
		out = append(out, row(s))
	}
	return out
}
