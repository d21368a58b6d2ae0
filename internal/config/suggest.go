package config

import "strings"

// suggest returns the candidate an operator most likely meant, or nothing when none is near.
func suggest(word string, candidates []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	// A distance as long as the word itself says only that both are short.
	if bestDistance >= len(word) {
		return ""
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of neighbors.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, previous := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(s); i++ {
		current := make([]int, len(t)+1)
		current[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous = previous, current
	}
	return previous[len(t)]
}
