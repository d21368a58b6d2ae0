package phonetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
)

// Bot is the token of the bot.
const Bot = "4242424242:AAtestTokenOfTheBot-0123456789_abcdef"

// Message is what the bot sent to a chat.
type Message struct {
	ID      int64
	Chat    string
	Thread  int64
	Text    string
	Buttons []Button
	Edited  bool
}

// Button is below a message.
type Button struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// Popup is what a person sees after the press of a button.
type Popup struct {
	Callback string `json:"callback_query_id"`
	Text     string `json:"text"`
	Alert    bool   `json:"show_alert"`
}

type update struct {
	ID    int64
	Body  map[string]any
	Again bool // sent although it was confirmed
}

// Telegram is the server of the Bot API.
type Telegram struct {
	*httptest.Server

	mu       sync.Mutex
	changed  *sync.Cond
	messages []Message
	updates  []update
	last     int64
	popups   []Popup
	polls    int // under way
	most     int // polls at once
	offsets  []int64
	closed   bool
	history  []update
	fails    int
}

// NewTelegram starts a server that ends with the test.
func NewTelegram(t testing.TB) *Telegram {
	t.Helper()
	s := &Telegram{last: 900}
	s.changed = sync.NewCond(&s.mu)
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.mu.Lock()
		s.closed = true
		s.changed.Broadcast()
		s.mu.Unlock()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// Target is the URL of a chat for the configuration.
func (s *Telegram) Target(chat string) string { return "tgram://" + Bot + "/" + chat + "?api=" + s.URL }

// Fail makes the next messages fail.
func (s *Telegram) Fail(times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = times
}

// Repeat sends every update once more, confirmed or not.
func (s *Telegram) Repeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.history {
		u.Again = true
		s.updates = append(s.updates, u)
	}
	s.changed.Broadcast()
}

// Messages returns what the bot sent.
func (s *Telegram) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.messages)
}

// Popups returns the replies to presses.
func (s *Telegram) Popups() []Popup {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.popups)
}

// Offsets returns where the polls began, in order.
func (s *Telegram) Offsets() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.offsets)
}

// Polls is how many polls are under way, and how many were so at once.
func (s *Telegram) Polls() (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polls, s.most
}

// Waiting is how many updates no poll has confirmed.
func (s *Telegram) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.updates)
}

// Press is the press of a button by a person.
func (s *Telegram) Press(t testing.TB, m Message, label string, user int64, name string) {
	t.Helper()
	i := slices.IndexFunc(m.Buttons, func(b Button) bool { return b.Text == label })
	if i < 0 {
		t.Fatalf("no button %q among %+v", label, m.Buttons)
	}
	chat, _ := strconv.ParseInt(m.Chat, 10, 64)
	s.Callback(m.Buttons[i].Data, chat, m, user, name)
}

// Callback is a press whose content a hostile client chose.
func (s *Telegram) Callback(data string, chat int64, m Message, user int64, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(map[string]any{"callback_query": map[string]any{
		"id": fmt.Sprintf("cb%d", s.last+1), "from": map[string]any{"id": user, "username": name, "first_name": "x"}, "data": data,
		"message": map[string]any{"message_id": m.ID, "chat": map[string]any{"id": chat}, "text": m.Text},
	}})
}

// Say is a message of a person to the bot.
func (s *Telegram) Say(user int64, name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(map[string]any{"message": map[string]any{
		"message_id": 1, "from": map[string]any{"id": user, "username": name}, "chat": map[string]any{"id": user}, "text": text,
	}})
}

func (s *Telegram) add(body map[string]any) {
	s.last++
	body["update_id"] = s.last
	s.updates = append(s.updates, update{ID: s.last, Body: body})
	s.history = append(s.history, update{ID: s.last, Body: body})
	s.changed.Broadcast()
}

func (s *Telegram) serve(w http.ResponseWriter, r *http.Request) {
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+Bot+"/")
	if !ok {
		s.fail(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	var in struct {
		Popup

		Chat     any    `json:"chat_id"`
		Message  int64  `json:"message_id"`
		Thread   int64  `json:"message_thread_id"`
		Text     string `json:"text"`
		Offset   int64  `json:"offset"`
		Timeout  int    `json:"timeout"`
		Limit    int    `json:"limit"`
		Keyboard struct {
			Rows [][]Button `json:"inline_keyboard"`
		} `json:"reply_markup"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.fail(w, http.StatusBadRequest, "Bad Request: "+err.Error())
		return
	}
	in.Popup.Text = in.Text
	if method == "getUpdates" {
		s.poll(w, r, in.Offset, in.Timeout, in.Limit)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails > 0 {
		s.fails--
		s.fail(w, http.StatusTooManyRequests, "Too Many Requests: retry after 5")
		return
	}
	if len(utf16.Encode([]rune(in.Text))) > 4096 {
		s.fail(w, http.StatusBadRequest, "Bad Request: message is too long")
		return
	}
	switch method {
	case "sendMessage":
		m := Message{ID: int64(len(s.messages) + 1), Chat: fmt.Sprint(in.Chat), Thread: in.Thread, Text: in.Text}
		for _, row := range in.Keyboard.Rows {
			m.Buttons = append(m.Buttons, row...)
		}
		if slices.ContainsFunc(m.Buttons, func(b Button) bool { return b.Text == "" || b.Data == "" || len(b.Data) > 64 }) {
			s.fail(w, http.StatusBadRequest, "Bad Request: BUTTON_DATA_INVALID")
			return
		}
		if in.Text == "" {
			s.fail(w, http.StatusBadRequest, "Bad Request: message text is empty")
			return
		}
		s.messages = append(s.messages, m)
		s.answer(w, map[string]any{"message_id": m.ID})
	case "editMessageText":
		i := slices.IndexFunc(s.messages, func(m Message) bool { return m.ID == in.Message })
		if i < 0 || s.messages[i].Text == in.Text {
			s.fail(w, http.StatusBadRequest, "Bad Request: message is not modified")
			return
		}
		s.messages[i].Text, s.messages[i].Buttons, s.messages[i].Edited = in.Text, nil, true
		s.answer(w, true)
	case "answerCallbackQuery":
		if len([]rune(in.Text)) > 200 {
			s.fail(w, http.StatusBadRequest, "Bad Request: MESSAGE_TOO_LONG")
			return
		}
		s.popups = append(s.popups, in.Popup)
		s.answer(w, true)
	default:
		s.fail(w, http.StatusNotFound, "Not Found")
	}
}

// poll answers when there is an update, or after the time that was asked for.
func (s *Telegram) poll(w http.ResponseWriter, r *http.Request, offset int64, timeout, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offsets = append(s.offsets, offset)
	s.polls++
	s.most = max(s.most, s.polls)
	defer func() { s.polls-- }()
	s.updates = slices.DeleteFunc(s.updates, func(u update) bool { return u.ID < offset && !u.Again })
	stop := make(chan struct{})
	defer close(stop)
	over := false
	go func() {
		timer := time.NewTimer(time.Duration(timeout) * time.Second)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
		case <-timer.C:
		case <-stop:
		}
		s.mu.Lock()
		over = true
		s.changed.Broadcast()
		s.mu.Unlock()
	}()
	for len(s.updates) == 0 && !over && !s.closed {
		s.changed.Wait()
	}
	out := []any{}
	for i, u := range s.updates[:min(len(s.updates), limit)] {
		out = append(out, u.Body)
		s.updates[i].Again = false
	}
	s.answer(w, out)
}

func (s *Telegram) answer(w http.ResponseWriter, result any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

func (s *Telegram) fail(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error_code": status, "description": why})
}
