package bench

import "testing"

// TestJudging: everything is judged as it should be (kept), or there is an error.
func TestJudging(t *testing.T) {
	if perSecond, err := judgeFromMemory(100); err != nil || perSecond <= 0 {
		t.Errorf("%g a second, %v", perSecond, err)
	}
}
