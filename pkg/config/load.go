package config

import "errors"

// maxSize is far above any real configuration and far below what hurts.
const maxSize = 1 << 20

// Check is a rule that another package adds, such as what a driver cannot do; it gives what is wrong by path.
type Check func(*Config) []Problem

// Problem is a mistake at a path such as sessions.script.tell[2].
type Problem struct{ Path, What, Fix string }

// Load reads and checks a file. Relative file names in it start at its folder. getenv is asked for the variables that
// the file names. The error is an Errors.
func Load(path string, getenv func(string) string, checks ...Check) (*Config, error) {
	return nil, errors.ErrUnsupported
}

// Parse is Load for a text; name stands for the file in messages and for its folder.
func Parse(name string, data []byte, getenv func(string) string, checks ...Check) (*Config, error) {
	return nil, errors.ErrUnsupported
}
