package notify

import (
	"net/url"
	"slices"
	"strings"
)

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
