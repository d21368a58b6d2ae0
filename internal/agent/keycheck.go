package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// KeyState is what is known of the key of an API.
type KeyState string

// The states of a key.
const (
	KeyMissing     KeyState = "missing"
	KeyPlaceholder KeyState = "placeholder" // the example of a document, not a key
	KeyRefused     KeyState = "refused"
	KeyAccepted    KeyState = "accepted"
	KeyUntested    KeyState = "untested" // no free request can tell
)

// KeyCheck is the result of a check. It never holds the key.
type KeyCheck struct {
	State    KeyState
	Variable string // that holds the key; empty if none does
	Detail   string // why nothing could be told
}

const (
	keyCheckTime = 5 * time.Second
	keyAnswer    = 64 << 10 // bytes of an answer that are read
)

// CheckKey asks the API whether it takes the first of the keys that env holds, with a request that costs nothing.
func CheckKey(ctx context.Context, env []string, names ...string) KeyCheck {
	for _, name := range names {
		if key := Variable(env, name); key != "" {
			found := KeyCheck{State: KeyPlaceholder, Variable: name}
			if !placeholder(key) {
				found.State, found.Detail = askAPI(ctx, env, name, key)
			}
			return found
		}
	}
	return KeyCheck{State: KeyMissing}
}

// placeholder reports whether a key is an example that somebody copied.
func placeholder(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc([]string{"...", "…", "<", ">", "your-", "your_", "yourkey", "changeme", "change-me", "xxxx", " "},
		func(part string) bool { return strings.Contains(key, part) })
}

// askAPI lists the models of the API, which is free.
func askAPI(ctx context.Context, env []string, name, key string) (KeyState, string) {
	i := slices.IndexFunc(apis(), func(a api) bool { return slices.Contains(a.keys, name) })
	switch {
	case i < 0:
		return KeyUntested, "no free request of its API is known"
	case name == subscriptionToken:
		return KeyUntested, "the token of a subscription takes no free request"
	}
	a := apis()[i]
	ctx, cancel := context.WithTimeout(ctx, keyCheckTime)
	defer cancel()
	where := strings.TrimSuffix(cmp.Or(Variable(env, a.url), a.usual), "/") + a.models
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return KeyUntested, "the address of the API is wrong"
	}
	r.Header = a.extra(passing(env, func(string) bool { return true }))
	if name == anthropicKey {
		r.Header.Set("X-Api-Key", key)
	} else {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set("Anthropic-Version", "2023-06-01")
	client := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true},
		// A key goes to nobody but the configured API.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		return KeyUntested, "the API does not answer: " + withoutAddress(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, keyAnswer)) // only a refusal needs it
	switch {
	case answer.StatusCode == http.StatusOK:
		return KeyAccepted, ""
	case answer.StatusCode == http.StatusUnauthorized && !strings.Contains(string(text), "insufficient permissions"):
		return KeyRefused, ""
	}
	return KeyUntested, "the API answers " + answer.Status
}

// withoutAddress is the reason of a failed request: the address may hold a secret.
func withoutAddress(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + keyCheckTime.String()
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
}
