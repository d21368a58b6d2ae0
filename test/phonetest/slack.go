package phonetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// The tokens of the Slack app: one for its connections, one for its messages.
const (
	SlackApp = "xapp-1-A0TESTAPP-4242424242-testTokenOfTheApp0123456789abcdef"
	SlackBot = "xoxb-424242424242-434343434343-testTokenOfTheSlackBot"
)

// Post is what the app posted to a channel.
type Post struct {
	ID        string
	Channel   string
	Thread    string
	Broadcast bool
	Alert     string // what a lock screen shows
	Text      string // of its blocks, one below the other
	Buttons   []Button
	Blocks    []json.RawMessage
	Updates   int
}

// Whisper is what only one person sees.
type Whisper struct{ User, Text string }

// Slack is the server of the API, and of the connections of Socket Mode.
type Slack struct {
	*httptest.Server

	mu       sync.Mutex
	posts    []Post
	whispers []Whisper
	pressed  []envelope
	conns    []*websocket.Conn
	tickets  []string
	opened   int
	most     int // connections at once
	acks     []string
	fails    map[string][]string // by method: what it answers next
	last     int
}

type envelope struct {
	id    string
	body  map[string]any
	acked bool
}

// NewSlack starts a server that ends with the test.
func NewSlack(t testing.TB) *Slack {
	t.Helper()
	s := &Slack{fails: map[string][]string{}, last: 100}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/{method}", s.serve)
	mux.HandleFunc("GET /link", s.connect)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.Cut()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Target is the URL of a channel for the configuration, with who may answer.
func (s *Slack) Target(channel, people string) string {
	return "slackapp://" + SlackApp + "/" + SlackBot + "/" + channel + "?api=" + s.URL + "/api" + people
}

// Fail makes the next calls of a method fail, with these errors.
func (s *Slack) Fail(method string, errors ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails[method] = errors
}

// Posts returns what the app posted.
func (s *Slack) Posts() []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.posts)
}

// Whispers returns what single persons were told.
func (s *Slack) Whispers() []Whisper {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.whispers)
}

// Delete removes a message, as a person can.
func (s *Slack) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.posts = slices.DeleteFunc(s.posts, func(p Post) bool { return p.ID == id })
}

// Connections is how many there are, how many there were at once, and how many were opened.
func (s *Slack) Connections() (now, most, opened int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns), s.most, s.opened
}

// Acks are the ids of the envelopes that were acknowledged, in order.
func (s *Slack) Acks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acks)
}

// Waiting is how many presses were not acknowledged.
func (s *Slack) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.pressed {
		if !e.acked {
			n++
		}
	}
	return n
}

// Press is the press of a button by a person.
func (s *Slack) Press(t testing.TB, p Post, label, user, name string) {
	t.Helper()
	i := slices.IndexFunc(p.Buttons, func(b Button) bool { return b.Text == label })
	if i < 0 {
		t.Fatalf("no button %q among %+v", label, p.Buttons)
	}
	s.Action(p.Buttons[i].Data, p.Channel, p, user, name)
}

// Action is a press whose content a hostile client chose.
func (s *Slack) Action(value, channel string, p Post, user, name string) {
	message := map[string]any{"type": "message", "ts": p.ID, "text": p.Alert, "blocks": p.Blocks}
	if p.Thread != "" {
		message["thread_ts"] = p.Thread
	}
	s.mu.Lock()
	at := fmt.Sprintf("17000%05d.000100", s.next())
	s.mu.Unlock()
	s.Envelope("interactive", map[string]any{
		"type": "block_actions", "api_app_id": "A0TESTAPP", "trigger_id": "1.2.3",
		"user": map[string]any{"id": user, "username": name, "name": name, "team_id": "T0TEST"}, "channel": map[string]any{"id": channel, "name": "ops"},
		"container": map[string]any{"type": "message", "message_ts": p.ID, "channel_id": channel}, "message": message,
		"actions": []any{map[string]any{"type": "button", "action_id": "claudeops-0", "block_id": "b", "value": value, "action_ts": at}},
	})
}

// Envelope sends something by a connection, and again by every new one until it is acknowledged.
func (s *Slack) Envelope(kind string, payload any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprintf("envelope-%d", s.next())
	body := map[string]any{"type": kind, "envelope_id": id, "accepts_response_payload": true, "payload": payload}
	s.pressed = append(s.pressed, envelope{id: id, body: body})
	if len(s.conns) > 0 {
		send(context.Background(), s.conns[0], body)
	}
}

// Repeat sends every envelope once more, acknowledged or not.
func (s *Slack) Repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.pressed {
		s.pressed[i].acked = false
		e.body["retry_attempt"], e.body["retry_reason"] = 1, "timeout"
		if len(s.conns) > 0 {
			send(context.Background(), s.conns[0], e.body)
		}
	}
}

// Disconnect asks for a new connection, as Slack does about every hour, or says why there will be none.
func (s *Slack) Disconnect(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		send(context.Background(), c, map[string]any{"type": "disconnect", "reason": reason, "debug_info": map[string]any{"host": "test"}})
	}
}

// Cut ends all connections without a word.
func (s *Slack) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.CloseNow()
	}
}

func (s *Slack) next() int {
	s.last++
	return s.last
}

func send(ctx context.Context, c *websocket.Conn, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_ = c.Write(ctx, websocket.MessageText, text) // a dead connection gets nothing
}

// connect is one connection. Its address works once.
func (s *Slack) connect(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	i := slices.Index(s.tickets, r.URL.Query().Get("ticket"))
	if i >= 0 {
		s.tickets = slices.Delete(s.tickets, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 {
		http.Error(w, "bad ticket", http.StatusForbidden)
		return
	}
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.opened++
	s.most = max(s.most, len(s.conns))
	send(r.Context(), c, map[string]any{"type": "hello", "num_connections": len(s.conns), "connection_info": map[string]any{"app_id": "A0TESTAPP"}})
	for _, e := range s.pressed {
		if !e.acked {
			send(r.Context(), c, e.body)
		}
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = slices.DeleteFunc(s.conns, func(o *websocket.Conn) bool { return o == c })
	}()
	for {
		_, text, err := c.Read(r.Context())
		if err != nil {
			return
		}
		var ack struct {
			ID string `json:"envelope_id"`
		}
		if json.Unmarshal(text, &ack) == nil {
			s.ack(ack.ID)
		}
	}
}

func (s *Slack) ack(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = append(s.acks, id)
	for i := range s.pressed {
		if s.pressed[i].id == id {
			s.pressed[i].acked = true
		}
	}
}

func (s *Slack) serve(w http.ResponseWriter, r *http.Request) {
	method := r.PathValue("method")
	var in struct {
		Channel   string            `json:"channel"`
		ID        string            `json:"ts"`
		Thread    string            `json:"thread_ts"`
		Broadcast bool              `json:"reply_broadcast"`
		User      string            `json:"user"`
		Text      string            `json:"text"`
		Blocks    []json.RawMessage `json:"blocks"`
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := func(fields map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(fields)
	}
	refuse := func(code string) { answer(map[string]any{"ok": false, "error": code}) }
	token := SlackBot
	if method == "apps.connections.open" {
		token = SlackApp
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+token:
		refuse("invalid_auth")
		return
	case json.NewDecoder(r.Body).Decode(&in) != nil:
		refuse("invalid_json")
		return
	}
	if fails := s.fails[method]; len(fails) > 0 {
		s.fails[method] = fails[1:]
		refuse(fails[0])
		return
	}
	post := Post{Channel: in.Channel, Thread: in.Thread, Broadcast: in.Broadcast, Alert: in.Text, Blocks: in.Blocks}
	if !post.read() {
		refuse("invalid_blocks")
		return
	}
	at := func(id string) int {
		return slices.IndexFunc(s.posts, func(p Post) bool { return p.Channel == in.Channel && p.ID == id })
	}
	switch method {
	case "apps.connections.open":
		ticket := fmt.Sprintf("secret-ticket-%d", s.next())
		s.tickets = append(s.tickets, ticket)
		answer(map[string]any{"ok": true, "url": strings.Replace(s.URL, "http:", "ws:", 1) + "/link?ticket=" + ticket})
	case "chat.postMessage":
		if in.Thread != "" && at(in.Thread) < 0 {
			refuse("thread_not_found")
			return
		}
		post.ID = fmt.Sprintf("17000%05d.000200", s.next())
		s.posts = append(s.posts, post)
		answer(map[string]any{"ok": true, "channel": in.Channel, "ts": post.ID})
	case "chat.update":
		i := at(in.ID)
		if i < 0 {
			refuse("message_not_found")
			return
		}
		post.ID, post.Thread, post.Broadcast, post.Updates = in.ID, s.posts[i].Thread, s.posts[i].Broadcast, s.posts[i].Updates+1
		s.posts[i] = post
		answer(map[string]any{"ok": true, "channel": in.Channel, "ts": in.ID})
	case "chat.postEphemeral":
		s.whispers = append(s.whispers, Whisper{in.User, in.Text})
		answer(map[string]any{"ok": true})
	default:
		refuse("unknown_method")
	}
}

// element is a part of a message, and of other parts.
type element struct {
	Type     string          `json:"type"`
	Text     json.RawMessage `json:"text"` // a text, or an element with one
	URL      string          `json:"url"`
	Action   string          `json:"action_id"`
	Value    string          `json:"value"`
	Elements []element       `json:"elements"`
}

// read takes text and buttons from the blocks, and reports whether Slack would take them.
func (p *Post) read() bool {
	const mostBlocks, mostBytes = 50, 12000
	size := 0
	for i, raw := range p.Blocks {
		var b element
		if json.Unmarshal(raw, &b) != nil || b.Type != "rich_text" && b.Type != "actions" || len(b.Elements) == 0 {
			return false
		}
		if i > 0 && b.Type == "rich_text" {
			p.Text += "\n"
		}
		if !p.take(b.Elements) {
			return false
		}
		size += len(raw)
	}
	return len(p.Blocks) <= mostBlocks && size <= mostBytes
}

func (p *Post) take(parts []element) bool {
	const longestValue = 2000
	for _, e := range parts {
		var label element
		var text string
		switch e.Type {
		case "rich_text_section":
			if !p.take(e.Elements) {
				return false
			}
		case "text", "link":
			if json.Unmarshal(e.Text, &text) != nil || text == "" {
				return false
			}
			p.Text += text
			if e.URL != "" {
				p.Text += " (" + e.URL + ")"
			}
		case "button":
			if json.Unmarshal(e.Text, &label) != nil || json.Unmarshal(label.Text, &text) != nil || label.Type != "plain_text" || e.Action == "" ||
				e.Value == "" || len(e.Value) > longestValue {
				return false
			}
			p.Buttons = append(p.Buttons, Button{Text: text, Data: e.Value})
		default:
			return false
		}
	}
	return true
}
