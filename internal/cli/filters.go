package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// sinceType is the type of flags for a time in the past.
const sinceType = "since"

// sinceFlag adds --since: a time, or how long ago.
func sinceFlag(c *cobra.Command, to *time.Time, doc string) {
	c.Flags().Var(&since{to}, "since", doc+": a duration (2h, 7d), a date or a time")
}

// since is the value of --since.
type since struct{ at *time.Time }

// String is the default that help shows: none.
func (*since) String() string { return "" }

// Type names the value in help.
func (*since) Type() string { return sinceType }

// Set reads a duration before now, a date of the local calendar, or a time.
func (s *since) Set(text string) error {
	now := time.Now()
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*s.at = now.AddDate(0, 0, -int(n))
			return nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		*s.at = now.Add(-d)
		return nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02 15:04:05", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			*s.at = at
			return nil
		}
	}
	return errors.New("not a time")
}

// oneOf checks the value of a flag that selects rows: with a value that no row has, the list would only be empty.
func oneOf[T ~string](flag, given string, values []T) (T, error) {
	if given == "" || slices.Contains(values, T(given)) {
		return T(given), nil
	}
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	last := len(words) - 1
	return "", usage(fmt.Errorf("--%s is %q%s: use %s or %s",
		flag, given, didYouMean(given, words), strings.Join(words[:last], ", "), words[last]))
}
