package notify

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Targets are what the URLs of targets mean: those that are served here, and those that Apprise serves.
type Targets struct {
	Ntfy     []NtfyTarget
	Telegram []TelegramTarget
	Apprise  []string
}

// NtfyTarget is a topic of an ntfy server.
type NtfyTarget struct {
	Base     string // of the server: https://ntfy.sh
	Topic    string
	User     string
	Password string
	Token    string // instead of user and password
	Reply    string // topic of the same server at which answers arrive; empty: one is made
	Priority int    // 0: by the level of the notice
	Tags     []string
}

// TelegramTarget is a chat of a Telegram bot.
type TelegramTarget struct {
	Token  string // of the bot
	Chat   string // a number, or the @name of a channel
	Thread int64  // topic of a group; 0: none
	Silent bool
	API    string // the server of the bot
}

// ParseTargets sorts the URLs of targets. A URL with parts that only Apprise understands stays with Apprise.
func ParseTargets(urls []string) Targets {
	var out Targets
	for _, raw := range urls {
		raw = strings.TrimSpace(raw)
		scheme, rest, _ := strings.Cut(raw, "://")
		switch strings.ToLower(scheme) {
		case "ntfy", "ntfys":
			if targets, ok := parseNtfy(strings.ToLower(scheme) == "ntfys", rest); ok {
				out.Ntfy = append(out.Ntfy, targets...)
				continue
			}
		case "tgram":
			if targets, ok := parseTelegram(rest); ok {
				out.Telegram = append(out.Telegram, targets...)
				continue
			}
		}
		if raw != "" {
			out.Apprise = append(out.Apprise, raw)
		}
	}
	return out
}

// Native is how many targets are served here.
func (t Targets) Native() int { return len(t.Ntfy) + len(t.Telegram) }

// split separates the parts of a target's URL. It does not use a URL parser, because the token of a bot is not a host and port.
func split(rest string) (authority string, path []string, query url.Values, ok bool) {
	rest, _, _ = strings.Cut(rest, "#")
	rest, params, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(params)
	if err != nil {
		return "", nil, nil, false
	}
	authority, tail, _ := strings.Cut(rest, "/")
	for part := range strings.SplitSeq(tail, "/") {
		if part == "" {
			continue
		}
		plain, err := url.PathUnescape(part)
		if err != nil {
			return "", nil, nil, false
		}
		path = append(path, plain)
	}
	return authority, path, query, authority != ""
}

// only reports whether a URL has no other parameters than these.
func only(query url.Values, names ...string) bool {
	for name := range query {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}

// publicNtfy is the server that a URL without a host means.
const publicNtfy = "ntfy.sh"

func parseNtfy(secure bool, rest string) ([]NtfyTarget, bool) {
	authority, topics, query, ok := split(rest)
	if !ok || !only(query, "token", "reply", "priority", "tags") {
		return nil, false
	}
	var one NtfyTarget
	host := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		host = authority[at+1:]
		if !one.logIn(authority[:at]) {
			return nil, false
		}
	}
	if token := query.Get("token"); token != "" {
		one.Token, one.User, one.Password = token, "", ""
	}
	if len(topics) == 0 { // ntfy://topic
		host, topics = publicNtfy, []string{host}
	}
	scheme := "http"
	if secure || host == publicNtfy {
		scheme = "https"
	}
	if base, err := url.Parse(scheme + "://" + host); err != nil || base.Host == "" || base.User != nil {
		return nil, false
	}
	one.Base, one.Reply, one.Tags = scheme+"://"+host, query.Get("reply"), splitTags(query.Get("tags"))
	if one.Reply != "" && !isWord(one.Reply) || !one.prioritize(query.Get("priority")) {
		return nil, false
	}
	var out []NtfyTarget
	for _, topic := range topics {
		if !isWord(topic) {
			return nil, false
		}
		one.Topic = topic
		out = append(out, one)
	}
	return out, true
}

// logIn reads what stands before the @: a token, or a user and a password.
func (t *NtfyTarget) logIn(text string) bool {
	user, password, both := strings.Cut(text, ":")
	user, err := url.PathUnescape(user)
	if err != nil {
		return false
	}
	password, err = url.PathUnescape(password)
	switch {
	case err != nil || user == "":
		return false
	case both:
		t.User, t.Password = user, password
	default:
		t.Token = user
	}
	return true
}

// prioritize reads a priority as Apprise spells it.
func (t *NtfyTarget) prioritize(word string) bool {
	if word == "" {
		return true
	}
	if n, err := strconv.Atoi(word); err == nil && n >= 1 && n <= 5 {
		t.Priority = n
		return true
	}
	t.Priority = slices.Index([]string{"", "min", "low", "default", "high", "max"}, strings.ToLower(word))
	return t.Priority > 0
}

func splitTags(text string) []string {
	if text == "" {
		return nil
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func parseTelegram(rest string) ([]TelegramTarget, bool) {
	token, chats, query, ok := split(rest)
	if !ok || len(chats) == 0 || !only(query, "silent", "topic", "thread", "api") {
		return nil, false
	}
	token = strings.TrimPrefix(token, "bot")
	if plain, err := url.PathUnescape(token); err == nil {
		token = plain
	}
	if bot, secret, ok := strings.Cut(token, ":"); !ok || !isNumber(bot) || !isWord(secret) {
		return nil, false
	}
	silent := slices.Contains([]string{"yes", "true", "1", "on"}, strings.ToLower(query.Get("silent")))
	thread := query.Get("topic") + query.Get("thread")
	api := strings.TrimRight(query.Get("api"), "/")
	if server, err := url.Parse(api); api != "" && (err != nil || server.Host == "") {
		return nil, false
	}
	var out []TelegramTarget
	for _, chat := range chats {
		one := TelegramTarget{Token: token, Chat: chat, Silent: silent, API: cmp.Or(api, publicTelegram)}
		of := thread
		if id, topic, ok := strings.Cut(chat, ":"); ok {
			one.Chat, of = id, topic
		}
		if of != "" {
			n, err := strconv.ParseInt(of, 10, 64)
			if err != nil || n <= 0 {
				return nil, false
			}
			one.Thread = n
		}
		if !isNumber(strings.TrimPrefix(one.Chat, "-")) && !(strings.HasPrefix(one.Chat, "@") && len(one.Chat) > 1) {
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// bot is the number of the bot, which is not a secret.
func (t TelegramTarget) bot() string {
	bot, _, _ := strings.Cut(t.Token, ":")
	return bot
}

// recipient names the chat in the tokens of its answers.
func (t TelegramTarget) recipient() string { return "telegram:" + t.Chat }

// name is how people know the chat.
func (t TelegramTarget) name() string {
	if t.Thread != 0 {
		return fmt.Sprintf("Telegram chat %s, topic %d", t.Chat, t.Thread)
	}
	return "Telegram chat " + t.Chat
}

// recipient names the topic in the tokens of its answers. The name of a topic can be a secret, so it is not shown.
func (t NtfyTarget) recipient() string { return "ntfy:" + t.digest() }

func (t NtfyTarget) digest() string {
	const shown = 4
	sum := sha256.Sum256([]byte(t.Base + "/" + t.Topic))
	return hex.EncodeToString(sum[:shown])
}

// name is how people know the target.
func (t NtfyTarget) name() string {
	_, host, _ := strings.Cut(t.Base, "://")
	return "ntfy at " + host + " (topic " + t.digest() + ")"
}

// shortestSecret is the length from which a part of a URL is hidden in errors.
const shortestSecret = 5

// hider removes the parts of the targets' URLs from texts, since nearly every part of such a URL can be a token.
func hider(urls []string) *strings.Replacer {
	var secrets []string
	for _, raw := range urls {
		raw = strings.TrimSpace(raw)
		_, rest, ok := strings.Cut(raw, "://")
		if !ok {
			rest = raw
		}
		secrets = append(secrets, raw, rest)
		host := hostOf(rest)
		for _, part := range strings.FieldsFunc(rest, func(r rune) bool { return strings.ContainsRune("/@:?&=#,", r) }) {
			if !strings.Contains(host, part) {
				secrets = append(secrets, part)
			}
			if plain, err := url.PathUnescape(part); err == nil && plain != part {
				secrets = append(secrets, plain)
			}
		}
	}
	// The longest first, or a part would be replaced and the rest would stay.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, s := range secrets {
		if len(s) >= shortestSecret {
			pairs = append(pairs, s, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

// hostOf returns a part that is certainly a host name: it helps to find the fault and is not a secret.
func hostOf(rest string) string {
	authority, _, _ := strings.Cut(rest, "/")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	host, _, _ := strings.Cut(authority, ":")
	if strings.Contains(host, ".") || host == "localhost" {
		return host
	}
	return ""
}
