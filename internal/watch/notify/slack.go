package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

const longestSlack = 8000 // bytes of a message; Slack takes some more in its blocks

// slackCaller calls the methods of Slack's API with one of the app's tokens.
type slackCaller struct {
	api    string
	token  string
	client *http.Client
}

// slackRefusal is what Slack's API says instead of doing what was asked.
type slackRefusal string

func (r slackRefusal) Error() string {
	return fmt.Sprintf("the Slack API answered %q", string(r)) + map[slackRefusal]string{
		"not_in_channel":    "; invite the app to the channel",
		"channel_not_found": "; check the id of the channel, and invite the app to it",
		"missing_scope":     "; the bot token needs chat:write, and the app-level token connections:write",
		"invalid_auth":      "; check the tokens of the target",
	}[r]
}

// gone reports whether Slack refused because an earlier message is not there any more, or takes no changes or replies.
func gone(err error) bool {
	var refused slackRefusal
	return errors.As(err, &refused) && slices.Contains([]slackRefusal{
		"message_not_found", "thread_not_found", "cannot_reply_to_message", "restricted_action_thread_locked", "cant_update_message",
		"edit_window_closed",
	}, refused)
}

// call calls a method and reads its result.
func (c slackCaller) call(ctx context.Context, method string, in, out any) error {
	status, body, err := postJSON(ctx, c.client, c.api+"/"+method, http.Header{"Authorization": {"Bearer " + c.token}}, in)
	if err != nil {
		return fmt.Errorf("reach Slack: %w", err)
	}
	var said struct {
		OK    bool   `json:"ok"`
		Error string `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(body, &said), json.Unmarshal(body, out)); err != nil {
		return fmt.Errorf("the Slack API answered HTTP %d with something else than JSON", status)
	}
	if !said.OK {
		return slackRefusal(ops.OneLine(strings.ReplaceAll(said.Error, c.token, "***"), longestReason))
	}
	return nil
}

// slack sends to one channel. All notices of one problem are one thread there.
type slack struct {
	target  SlackTarget
	bot     slackCaller
	answers Subjects // makes the buttons and knows the threads; nil: there are neither
}

type slackMessage struct {
	Channel   string       `json:"channel"`
	ID        string       `json:"ts,omitempty"`
	Thread    string       `json:"thread_ts,omitempty"`       // the first message of the thread
	Broadcast bool         `json:"reply_broadcast,omitempty"` // shows a message of a thread in the channel too
	User      string       `json:"user,omitempty"`            // who alone sees it
	Text      string       `json:"text,omitempty"`            // where blocks are not shown, as on a lock screen
	Blocks    []slackBlock `json:"blocks,omitempty"`
}

// slackBlock is a part of a message. Those that Slack sends back have more fields than those that are made here.
type slackBlock map[string]any

const slackButtons = "actions" // the type of the block with the buttons

// slackText is a text in which nothing is taken for formatting or for the name of somebody, with a link below it.
func slackText(text, link string) slackBlock {
	parts := []slackBlock{{"type": "text", "text": text}}
	if link != "" {
		parts = append(parts, slackBlock{"type": "text", "text": "\n\n"}, slackBlock{"type": "link", "url": link, "text": "Details"})
	}
	return slackBlock{"type": "rich_text", "elements": []slackBlock{{"type": "rich_text_section", "elements": parts}}}
}

// slackPlain is the same for the texts that are shown without blocks.
func slackPlain(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// Send posts a notice. What a later notice of a thread asks is shown in the channel too, since a thread alone rings nobody.
func (s slack) Send(ctx context.Context, n ops.Notice) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	text := messageOf(ops.Notice{Title: n.Title, Body: n.Body, Level: n.Level})
	shown, complete := fit(text.whole(), longestSlack)
	m := slackMessage{Channel: s.target.Channel, Text: slackPlain(text.Title), Blocks: []slackBlock{slackText(shown, n.Link)}}
	if s.target.answered() {
		buttons, err := codedButtons(ctx, s.answers, n, s.target.recipient(), complete)
		if err != nil {
			return err
		}
		var row []slackBlock
		for _, b := range buttons {
			row = append(row, slackBlock{
				"type": "button", "text": slackBlock{"type": "plain_text", "text": b.label}, "action_id": b.label, "value": answer.Code(b.signed),
			})
		}
		if len(row) > 0 {
			m.Blocks = append(m.Blocks, slackBlock{"type": slackButtons, "elements": row})
		}
	}
	if s.answers == nil {
		return s.bot.call(ctx, "chat.postMessage", m, &struct{}{})
	}
	root, err := s.answers.NoticeRoot(ctx, s.target.recipient(), n, "")
	if err != nil {
		return err
	}
	// First the update: if posting fails then, doing it again changes nothing.
	if root.Message != "" && n.Kind == ops.NoticeResolved {
		over := slackUpdate(ops.NoticeRoot{Message: root.Message, Text: root.Text + "\n\n" + text.Title}, text.Title, n.Link)
		over.Channel = s.target.Channel
		if err := s.bot.call(ctx, "chat.update", over, &struct{}{}); err != nil && !gone(err) {
			return err
		}
	}
	return s.post(ctx, root, m, shown)
}

// post posts a message below the first one of its problem, or as the first one.
func (s slack) post(ctx context.Context, root ops.NoticeRoot, m slackMessage, shown string) error {
	var sent struct {
		ID string `json:"ts"`
	}
	m.Thread, m.Broadcast = root.Message, root.Message != "" && len(m.Blocks) > 1
	err := s.bot.call(ctx, "chat.postMessage", m, &sent)
	if m.Thread != "" && gone(err) {
		m.Thread, m.Broadcast, root.Message = "", false, ""
		err = s.bot.call(ctx, "chat.postMessage", m, &sent)
	}
	if err != nil || root.Message != "" || root.Thread == 0 {
		return err
	}
	root.Message, root.Text = sent.ID, shown
	return s.answers.KeepNoticeRoot(ctx, root)
}

// slackUpdate is the first message of a thread as it is now, without buttons. The line is what is new.
func slackUpdate(root ops.NoticeRoot, line, link string) slackMessage {
	return slackMessage{ID: root.Message, Text: slackPlain(line), Blocks: []slackBlock{slackText(root.Text, link)}}
}
