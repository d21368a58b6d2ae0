package notify

import (
	"context"
	"fmt"
	"strings"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// AnswerLinks returns the links with which people answer a notice on a page, for targets that have no buttons. Each is signed, works once,
// and is bound to the plan that the notice shows and to the name of its route.
func AnswerLinks(ctx context.Context, s Subjects, base, route string, n ops.Notice) ([]ops.AnswerLink, error) {
	subject, err := s.NoticeSubject(ctx, n)
	if err != nil {
		return nil, err
	}
	buttons := buttonsOf(n, subject, answer.LinkRecipient(route))
	if len(buttons) == 0 {
		return nil, nil
	}
	key, err := s.AnswerKey(ctx)
	if err != nil {
		return nil, err
	}
	var out []ops.AnswerLink
	for _, b := range buttons {
		label := b.label
		if b.token.Decision == answer.Approve {
			label += " (asks you to sign in)"
		}
		out = append(out, ops.AnswerLink{Label: label, Address: base + answer.LinkPath + answer.Sign(key, b.token)})
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
