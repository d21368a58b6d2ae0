package ops

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxProblem     = 90 // characters
	maxServiceName = 40
)

// Trouble is a service that is not healthy, and why. Agents and alerts write these texts too.
type Trouble struct {
	Service string
	Status  Health
	Error   string
}

// ProblemOf names a problem in one short line: "redis: connection refused", "redis and web: connection refused" or
// "redis: connection refused and 2 more". It is empty without any trouble.
func ProblemOf(all []Trouble) string {
	var names, reasons []string
	for _, t := range all {
		name := Cut(firstLine(t.Service), maxServiceName)
		if name == "" || slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		reasons = append(reasons, troubleReason(t))
	}
	if len(names) == 0 {
		return ""
	}
	subject, rest := names[0], ""
	switch more := len(names) - 1; {
	case more == 1 && reasons[0] == reasons[1]:
		subject += " and " + names[1]
	case more > 0:
		rest = fmt.Sprintf(" and %d more", more)
	}
	room := maxProblem - utf8.RuneCountInString(subject+": "+rest)
	return subject + ": " + Cut(reasons[0], max(room, 10)) + rest
}

func troubleReason(t Trouble) string {
	switch reason := ShortReason(t.Error); {
	case reason != "":
		return reason
	case t.Status == Down || t.Status == Degraded:
		return string(t.Status)
	}
	return "needs attention"
}

var (
	goError = regexp.MustCompile(`(?:\b(?:dial|read|write) (?:tcp|udp|unix)[46]?\b|\blookup \S+|` +
		`^(?:Get|Head|Post|Put) "?https?:|\bconnect: )`)
	httpStatus = regexp.MustCompile(`^HTTP (\d{3})(?: [A-Za-z' -]+)?$`)
	within     = regexp.MustCompile(`^no answer within (\S+)$`)
)

// ShortReason says in a few plain words why a check failed, in one line. It removes the addresses and the names of operations that Go
// puts before a network error.
func ShortReason(text string) string {
	text = firstLine(text)
	if goError.MatchString(text) {
		text = text[strings.LastIndex(text, ": ")+1:]
	}
	text = strings.TrimRight(strings.TrimSpace(text), ".:; ")
	for _, known := range [][2]string{
		{"context deadline exceeded", "no answer in time"},
		{"i/o timeout", "no answer in time"},
		{"no such host", "host not found"},
		{"Client.Timeout exceeded", "no answer in time"},
	} {
		if strings.Contains(text, known[0]) {
			return known[1]
		}
	}
	if text == "EOF" || text == "unexpected EOF" {
		return "connection closed without an answer"
	}
	if found := httpStatus.FindStringSubmatch(text); found != nil {
		return "HTTP " + found[1]
	}
	if found := within.FindStringSubmatch(text); found != nil {
		if d, err := time.ParseDuration(found[1]); err == nil {
			return "no answer within " + limitText(d)
		}
	}
	return text
}

// limitText is a time limit as people write it.
func limitText(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// firstLine is the first line of a text without characters that hide or reorder others.
func firstLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return OneLine(text, len(text))
}
