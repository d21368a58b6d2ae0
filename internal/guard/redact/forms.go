package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

const (
	minSecret = 6
	// minSecretLine is the least length at which one line of a secret of several lines is a secret
	// of its own: such a secret is printed line by line.
	minSecretLine = 12
)

type literalKey struct {
	text string
	fold bool
}

// forms lists the texts the secrets are found as.
func forms(secrets []string) []literal {
	seen := make(map[literalKey]bool)
	var out []literal
	add := func(text string, fold bool) {
		key := literalKey{text, fold}
		if len(text) < minSecret || seen[key] {
			return
		}
		seen[key] = true
		out = append(out, literal{text: text, fold: fold, mark: markSecret})
	}
	for _, secret := range secrets {
		for _, value := range values(secret) {
			for _, text := range encodings(value) {
				add(text, false)
			}
			// The digits of percent escapes come in either case.
			for _, text := range percentForms(value) {
				if strings.Contains(text, "%") {
					add(strings.ToLower(text), true)
				} else {
					add(text, false)
				}
			}
		}
	}
	return out
}

// values are the secret without the white space around it and, where it has several lines, each.
func values(secret string) []string {
	secret = strings.TrimSpace(secret)
	if len(secret) < minSecret {
		return nil
	}
	out := []string{secret}
	if !strings.Contains(secret, "\n") {
		return out
	}
	for line := range strings.SplitSeq(secret, "\n") {
		line = strings.TrimSpace(line)
		if len(line) >= minSecretLine && !strings.HasPrefix(line, "-----") {
			out = append(out, line)
		}
	}
	return out
}

func encodings(value string) []string {
	out := []string{value, strings.ToValidUTF8(value, "\uFFFD")}
	for _, escaped := range jsonForms(value) {
		out = append(out, escaped)
		// A JSON document inside a string of another one.
		out = append(out, jsonForms(escaped)...)
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// As far as the value alone decides it: the last character is shared with what follows, often a line break.
		out = append(out, enc.EncodeToString([]byte(value))[:len(value)*8/6])
	}
	return out
}

// jsonForms are the ways encoders write a text inside a JSON string.
func jsonForms(value string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil
	}
	bare := strings.Trim(strings.TrimSpace(plain.String()), "\n")
	bare = bare[1 : len(bare)-1]
	html, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	return []string{
		bare,
		string(html[1 : len(html)-1]),
		asciiOnly(bare),
		strings.ReplaceAll(bare, "/", `\/`),
	}
}

// asciiOnly writes what is not ASCII as \uXXXX, as many encoders do.
func asciiOnly(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// percentForms are the value as part of a URL: of its query, its path, and of neither in particular.
func percentForms(value string) []string {
	strict := percent(value, "")
	return []string{strings.ReplaceAll(strict, "%20", "+"), percent(value, "$&+=:@"), strict}
}

// percent escapes everything but letters, digits, the unreserved marks of RFC 3986 and those in keep.
func percent(value, keep string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(value) {
		c := value[i]
		if isWord(c) || c == '.' || c == '~' || strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}
