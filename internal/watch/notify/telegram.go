package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
)

// TelegramAPI is the server of the bots.
const TelegramAPI = "https://api.telegram.org"

const longestTelegram = 4000 // of a text; Telegram counts UTF-16 units and takes 4096

// telegramBot calls the methods of a bot.
type telegramBot struct {
	api    string
	token  string
	client *http.Client
}

// errTelegramConflict means that another program reads the messages of the bot.
var errTelegramConflict = errors.New("another program reads the messages of this bot")

// call calls a method and reads its result.
func (b telegramBot) call(ctx context.Context, method string, in, out any) error {
	status, body, err := postJSON(ctx, b.client, b.api+"/bot"+b.token+"/"+method, nil, in)
	if err != nil {
		return fmt.Errorf("reach Telegram: %w", err)
	}
	var said struct {
		OK          bool            `json:"ok"`
		Description string          `json:"description"`
		Result      json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return fmt.Errorf("the Telegram API answered HTTP %d without JSON", status)
	}
	if !said.OK {
		text := ops.OneLine(strings.ReplaceAll(said.Description, b.token, "***"), longestReason)
		if status == http.StatusConflict {
			return fmt.Errorf("%w: %s", errTelegramConflict, text)
		}
		return fmt.Errorf("the Telegram API answered HTTP %d: %s", status, text)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(said.Result, out); err != nil {
		return fmt.Errorf("read answer of the Telegram API: %w", err)
	}
	return nil
}

// telegram sends to one chat.
type telegram struct {
	target TelegramTarget
	bot    telegramBot
	// answers makes the buttons; nil sends none.
	answers Subjects
}

type telegramMessage struct {
	ChatID   any               `json:"chat_id"`
	Thread   int64             `json:"message_thread_id,omitempty"`
	Text     string            `json:"text"`
	Silent   bool              `json:"disable_notification,omitempty"`
	Preview  telegramNoPreview `json:"link_preview_options"`
	Keyboard *telegramKeyboard `json:"reply_markup,omitempty"`
}

type telegramNoPreview struct {
	Disabled bool `json:"is_disabled"`
}

type telegramKeyboard struct {
	Rows [][]telegramButton `json:"inline_keyboard"`
}

type telegramButton struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// Send sends a notice as plain text: nothing in it is taken for formatting. The link is in the text, because Telegram refuses a message
// with a button for an address that it does not like.
func (s telegram) Send(ctx context.Context, n ops.Notice) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	text := messageOf(n)
	whole := text.Title
	if strings.TrimSpace(text.Body) != text.Title {
		whole += "\n\n" + strings.TrimSpace(text.Body)
	}
	shown, complete := fit(whole, longestTelegram)
	keyboard, err := s.keyboard(ctx, n, complete)
	if err != nil {
		return err
	}
	return s.bot.call(ctx, "sendMessage", telegramMessage{
		ChatID: s.target.Chat, Thread: s.target.Thread, Text: shown, Silent: s.target.Silent, Preview: telegramNoPreview{true},
		Keyboard: keyboard,
	}, nil)
}

// keyboard makes the buttons and stores their tokens: a button has no room for one.
func (s telegram) keyboard(ctx context.Context, n ops.Notice, complete bool) (*telegramKeyboard, error) {
	var row []telegramButton
	if s.answers != nil {
		subject, err := s.answers.NoticeSubject(ctx, n)
		if err != nil {
			return nil, err
		}
		key, err := s.answers.AnswerKey(ctx)
		if err != nil {
			return nil, err
		}
		var tokens []string
		var expires time.Time
		for _, b := range buttonsOf(n, subject, s.target.recipient()) {
			if b.token.Decision == answer.Approve && !complete {
				continue // a person must not approve what the message does not show
			}
			token := answer.Sign(key, b.token)
			tokens = append(tokens, token)
			if b.token.Expires.After(expires) {
				expires = b.token.Expires
			}
			row = append(row, telegramButton{Text: b.label, Data: answer.Code(token)})
		}
		if len(tokens) > 0 {
			if err := s.answers.KeepAnswerCodes(ctx, tokens, expires); err != nil {
				return nil, err
			}
		}
	}
	if len(row) == 0 {
		return nil, nil //nolint:nilnil // a message without buttons has none
	}
	return &telegramKeyboard{[][]telegramButton{row}}, nil
}

// telegramUpdate is something that happened to the bot.
type telegramUpdate struct {
	ID       int64             `json:"update_id"`
	Message  *telegramIncoming `json:"message"`
	Callback *telegramCallback `json:"callback_query"`
}

type telegramIncoming struct {
	ID   int64         `json:"message_id"`
	From *telegramUser `json:"from"`
	Chat telegramChat  `json:"chat"`
	Text string        `json:"text"`
}

type telegramCallback struct {
	ID      string            `json:"id"`
	From    telegramUser      `json:"from"`
	Message *telegramIncoming `json:"message"`
	Data    string            `json:"data"`
}

type telegramUser struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

type telegramChat struct {
	ID       int64  `json:"id"`
	Username string `json:"username"`
}

// name is how events name a person. The name is chosen by that person, so only a harmless one is shown.
func (u telegramUser) name() string {
	const longest = 32
	plain := strings.Trim(u.Username, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") == ""
	if u.Username != "" && plain && len(u.Username) <= longest {
		return fmt.Sprintf("@%s (Telegram %d)", u.Username, u.ID)
	}
	return fmt.Sprintf("Telegram %d", u.ID)
}

// is reports whether a chat is the recipient of a token.
func (c telegramChat) is(recipient string) bool {
	return recipient == fmt.Sprintf("telegram:%d", c.ID) || c.Username != "" && recipient == "telegram:@"+c.Username
}
