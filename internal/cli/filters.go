package cli

import (
	"fmt"
	"slices"
	"strings"
)

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
