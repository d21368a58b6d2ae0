// Package recipes holds the pages that show how to add something: each change on them applies to the files as they are, and builds.
package recipes
