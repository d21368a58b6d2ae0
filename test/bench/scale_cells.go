package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
)

// cellOf returns the cell of an environment: the one with the highest hash of cell and environment. Every host computes the same without a
// list that must be kept, and a new cell takes its share of the environments and moves no other.
func cellOf(environment string, cells []string) string {
	var best [sha256.Size]byte
	cell := ""
	for _, c := range cells {
		if sum := sha256.Sum256([]byte(c + "\x00" + environment)); cell == "" || bytes.Compare(sum[:], best[:]) > 0 {
			best, cell = sum, c
		}
	}
	return cell
}

// spreadOver counts how evenly environments are spread, and how many move when a cell is added.
func spreadOver(environments, count int) (fewest, most, moved int) {
	cells := cellNames(count + 1)
	held := map[string]int{}
	for i := range environments {
		name := environmentName(i)
		before := cellOf(name, cells[:count])
		held[before]++
		if cellOf(name, cells) != before {
			moved++
		}
	}
	fewest = environments
	for _, c := range cells[:count] {
		fewest, most = min(fewest, held[c]), max(most, held[c])
	}
	return fewest, most, moved
}

func cellNames(count int) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = fmt.Sprintf("cell%d", i)
	}
	return out
}

func environmentName(i int) string { return fmt.Sprintf("site%03d-env%d", i/10, i%10) }
