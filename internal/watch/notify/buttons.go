package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// answerable is how long a button works if its question does not expire.
const answerable = 7 * 24 * time.Hour

// Subjects is where buttons come from.
type Subjects interface {
	NoticeSubject(ctx context.Context, n ops.Notice) (ops.NoticeSubject, error)
	NoticeThread(ctx context.Context, n ops.Notice) (ops.CycleID, error)
	AnswerKey(ctx context.Context) ([]byte, error)
	KeepAnswerCodes(ctx context.Context, tokens []string, expires time.Time) error
}

// button is an answer that a person can give to a notice.
type button struct {
	label  string
	token  answer.Token
	signed string
}

// buttonsOf returns the answers that fit a notice. A message of several notices has none.
func buttonsOf(n ops.Notice, s ops.NoticeSubject, recipient string) []button {
	var out []button
	add := func(label string, of answer.Subject, decision, plan string, expires time.Time) {
		out = append(out, button{label: label, token: answer.Token{
			Subject: of, Decision: decision, Plan: plan, Recipient: recipient, Expires: expires.UTC().Truncate(time.Second),
		}})
	}
	expires := n.CreatedAt.Add(answerable)
	asked := s.Approval != nil && (n.Kind.AsksPeople() || n.Kind == ops.NoticeReminder)
	if asked {
		until := expires
		if s.Approval.ExpiresAt != nil {
			until = *s.Approval.ExpiresAt
		}
		yes, no := "Approve", "Deny"
		if s.Approval.Kind == ops.ApprovalReview {
			yes, no = "Accept", "Reject"
		}
		of := answer.Subject{Kind: answer.KindApproval, ID: s.Approval.ID}
		add(yes, of, answer.Approve, s.Approval.PlanHash, until)
		add(no, of, answer.Deny, s.Approval.PlanHash, until)
	}
	if s.Reflex != nil {
		of := answer.Subject{Kind: answer.KindReflex, ID: s.Reflex.ID}
		add("Make it a reflex", of, answer.Approve, "", expires)
		add("No", of, answer.Deny, "", expires)
	}
	if n.Kind.AsksPeople() || !asksForCare(n.Kind) {
		return out
	}
	of, ok := openIncident(n, s)
	if !ok {
		return out
	}
	add("Acknowledge", of, answer.Acknowledge, "", expires)
	if !asked {
		add("Snooze "+hours(answer.SnoozeFor), of, answer.Snooze, "", expires)
	}
	return out
}

// signedButtons returns the answers that fit a notice, with their tokens signed by the key.
func signedButtons(ctx context.Context, s Subjects, n ops.Notice, recipient string) (out []button, key []byte, err error) {
	subject, err := s.NoticeSubject(ctx, n)
	if err != nil {
		return nil, nil, err
	}
	if key, err = s.AnswerKey(ctx); err != nil {
		return nil, nil, err
	}
	out = buttonsOf(n, subject, recipient)
	for i := range out {
		out[i].signed = answer.Sign(key, out[i].token)
	}
	return out, key, nil
}

// asksForCare reports whether a notice of this kind is about an incident that somebody should take care of.
func asksForCare(kind ops.NoticeKind) bool {
	switch kind {
	case ops.NoticeNeedsHuman, ops.NoticeAlert, ops.NoticeReminder, ops.NoticeBlocked, ops.NoticeFailed, ops.NoticePartial, ops.NoticeLeftDown,
		ops.NoticeBudget:
		return true
	case ops.NoticeOpened, ops.NoticeAction, ops.NoticeEscalated, ops.NoticeApproval, ops.NoticeReview, ops.NoticeBrake, ops.NoticeResolved,
		ops.NoticeDeadman, ops.NoticeHost, ops.NoticeTrust, ops.NoticeTest:
	}
	return false
}

// openIncident is what a button acknowledges: one incident, or all that the cycle of the notice reported.
func openIncident(n ops.Notice, s ops.NoticeSubject) (of answer.Subject, ok bool) {
	open := 0
	for _, i := range s.Incidents {
		if i.Status == ops.IncidentOpen {
			open++
			of = answer.Subject{Kind: answer.KindIncident, ID: i.ID}
		}
	}
	switch {
	case open == 0:
		return of, false
	case len(s.Incidents) > 1:
		of = answer.Subject{Kind: answer.KindCycle, ID: int64(*n.CycleID)}
	}
	return of, true
}

func hours(d time.Duration) string { return fmt.Sprintf("%dh", int(d.Hours())) }

// AnswerLinks returns the links with which people answer a notice on a page, for targets that have no buttons. Each is signed, works once,
// and is bound to the plan that the notice shows and to the name of its route.
func AnswerLinks(ctx context.Context, s Subjects, base, route string, n ops.Notice) ([]ops.AnswerLink, error) {
	buttons, _, err := signedButtons(ctx, s, n, answer.LinkRecipient(route))
	if err != nil {
		return nil, err
	}
	var out []ops.AnswerLink
	for _, b := range buttons {
		label := b.label
		if b.token.Decision == answer.Approve {
			label += " (asks you to sign in)"
		}
		out = append(out, ops.AnswerLink{Label: label, Address: base + answer.LinkPath + b.signed})
	}
	return out, nil
}

// withAnswers adds the links to the end of a notice. The brackets keep targets that render Markdown from taking a part of an address for
// emphasis.
func withAnswers(n ops.Notice) ops.Notice {
	if len(n.Answers) == 0 {
		return n
	}
	var b strings.Builder
	b.WriteString(strings.TrimRight(n.Body, "\n"))
	for _, a := range n.Answers {
		fmt.Fprintf(&b, "\n- %s: <%s>", a.Label, a.Address)
	}
	n.Body = b.String() + "\n"
	return n
}
