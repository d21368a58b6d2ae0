package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

const (
	// slackSilentFor is how long a connection may be silent; Slack sends a sign of life several times a minute.
	slackSilentFor = time.Minute
	// longestEnvelope is what is read of one press: it brings the message that the button is below.
	longestEnvelope = 1 << 20
	// mostSeen is how many presses are remembered, in case that they come again.
	mostSeen = 20
)

// appReader reads the presses of buttons that one Slack app sent. It opens a connection to Slack (Socket Mode), by which they come.
type appReader struct {
	*Replies
	targets []SlackTarget // of the same app
}

// slackEnvelope is what comes by the connection.
type slackEnvelope struct {
	Type    string     `json:"type"`
	ID      string     `json:"envelope_id"`
	Reason  string     `json:"reason"` // of the end of the connection
	Payload slackPress `json:"payload"`
}

// slackPress is the press of a button.
type slackPress struct {
	Type string `json:"type"`
	User struct {
		ID   string `json:"id"`
		Name string `json:"username"`
	} `json:"user"`
	Channel struct {
		ID string `json:"id"`
	} `json:"channel"`
	Message slackMessage `json:"message"`
	Actions []struct {
		Value string `json:"value"`
		At    string `json:"action_ts"`
	} `json:"actions"`
}

// listen opens a connection and takes the presses that come by it until it ends. Slack asks for a new one every few hours.
func (a appReader) listen(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(slackSilentFor, func() { cancel(fmt.Errorf("no sign of life for %s", slackSilentFor)) })
	defer watchdog.Stop()
	client, opened := newClient(a.HTTPClient), struct {
		URL string `json:"url"` // works once and is a secret
	}{}
	err := slackCaller{a.targets[0].API, a.targets[0].App, client}.call(ctx, "apps.connections.open", struct{}{}, &opened)
	if err != nil {
		return err
	}
	alive := func(context.Context, []byte) bool { watchdog.Reset(slackSilentFor); return true }
	//nolint:bodyclose // the body is the connection
	conn, _, err := websocket.Dial(ctx, opened.URL, &websocket.DialOptions{HTTPClient: client, OnPingReceived: alive})
	if err != nil {
		return fmt.Errorf("connect to Slack: %w", inner(err))
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(longestEnvelope)
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return fmt.Errorf("read answers from Slack: %w", err)
		}
		watchdog.Reset(slackSilentFor)
		var e slackEnvelope
		// Anything else is acknowledged and ignored.
		if err := json.Unmarshal(text, &e); err != nil {
			e.Payload = slackPress{}
		}
		switch {
		case e.Type == "disconnect" && e.Reason == "link_disabled":
			return errors.New("the Slack app has Socket Mode switched off; switch it on at api.slack.com/apps")
		case e.Type == "disconnect":
			return nil
		case e.ID != "":
			// Acknowledged after it was recorded: otherwise the press comes again, or the person sees that it failed.
			tell, err := a.pressed(ctx, e.Type, e.Payload)
			if err == nil {
				err = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"envelope_id":%q}`, e.ID))
			}
			if err != nil {
				return fmt.Errorf("take answer by Slack: %w", err)
			}
			tell()
		}
	}
}

// pressed takes the press of a button, and returns how to show what became of it.
func (a appReader) pressed(ctx context.Context, kind string, p slackPress) (tell func(), err error) {
	tell = func() {}
	if kind != "interactive" || p.Type != "block_actions" || len(p.Actions) != 1 {
		return tell, nil
	}
	mark := "slack/" + digestOf(a.targets[0].App)
	source := mark + "/" + p.User.ID + "/" + p.Actions[0].At
	read, err := a.Store.ReplyMark(ctx, mark)
	seen := strings.Fields(read)
	if err != nil || slices.Contains(seen, source) {
		return tell, err // the same press again, whose acknowledgement did not arrive
	}
	seen = append(seen[max(0, len(seen)-mostSeen+1):], source)
	reply := answer.Reply{
		Channel: "Slack", By: personName(p.User.Name, "Slack "+p.User.ID), Source: source, Mark: mark, Read: strings.Join(seen, " "),
	}
	may, to := rights{settings: "the Slack target's "}, a.targets[0]
	for _, t := range a.targets {
		if t.Channel == p.Channel.ID {
			to = t
			may.approve = may.approve || slices.Contains(t.Senders, p.User.ID)
			may.answer = may.answer || may.approve || slices.Contains(t.Responders, p.User.ID)
		}
	}
	here := func(recipient string) bool { return recipient == SlackTarget{Channel: p.Channel.ID}.recipient() }
	if err := a.check(ctx, &reply, p.Actions[0].Value, may, here); err != nil {
		return nil, err
	}
	result, err := a.take(ctx, reply)
	if err != nil {
		return nil, err
	}
	if !result.Repeated && (may.answer || a.told.take(a.Clock())) {
		tell = func() { a.tell(ctx, a.slack(to).bot, p, reply, result) }
	}
	return tell, nil
}

// tell shows what became of an answer: in place of the buttons, and in the first message of the thread. Who was refused is told alone.
// If it fails, people see the result later, on the page.
func (a appReader) tell(ctx context.Context, bot slackCaller, p slackPress, reply answer.Reply, result answer.Result) {
	ctx, cancel := limited(ctx)
	defer cancel()
	say := func(method string, m slackMessage) {
		m.Channel = p.Channel.ID
		if err := bot.call(ctx, method, m, &struct{}{}); err != nil {
			a.Logger.DebugContext(ctx, "cannot reply by Slack", "method", method, "error", err)
		}
	}
	line := reply.By + ": " + result.Text
	if reply.Refused == "" {
		blocks := slices.DeleteFunc(p.Message.Blocks, func(b slackBlock) bool { return b["type"] == slackButtons })
		say("chat.update", slackMessage{ID: p.Message.ID, Text: slackPlain(line), Blocks: append(blocks, slackText(line, ""))})
		root, err := a.Store.NoticeRoot(ctx, reply.Token.Recipient, ops.Notice{}, cmp.Or(p.Message.Thread, p.Message.ID))
		if err == nil && root.Message != "" {
			root.Text += "\n\n" + line // stays when the end is told
			err = a.Store.KeepNoticeRoot(ctx, root)
		}
		if err == nil && root.Message != p.Message.ID && root.Message != "" {
			say("chat.update", slackUpdate(root, line, ""))
		}
	}
	if !result.Done {
		say("chat.postEphemeral", slackMessage{User: p.User.ID, Thread: p.Message.Thread, Text: slackPlain(result.Text)})
	}
}
