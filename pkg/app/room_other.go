//go:build !unix

package app

import "errors"

// room cannot be told here.
func room(string) (int64, error) { return 0, errors.ErrUnsupported }
