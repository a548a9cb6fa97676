package analysis

import "math"

// calibration collects confidences and what came of them.
type calibration struct {
	n, hits     int
	sum, square float64
	bins        [10]struct {
		n, hits int
		sum     float64
	}
}

// add takes in a confidence from 0 to 1; others are left out.
func (c *calibration) add(confidence float64, well bool) {
	if math.IsNaN(confidence) || confidence < 0 || confidence > 1 {
		return
	}
	b := &c.bins[min(int(confidence*10+1e-9), 9)]
	c.n++
	b.n++
	c.sum += confidence
	b.sum += confidence
	miss := confidence
	if well {
		c.hits++
		b.hits++
		miss = 1 - confidence
	}
	c.square += miss * miss
}

func (c *calibration) result() Calibration {
	r := Calibration{N: c.n, SuccessRate: rate(c.hits, c.n), Bins: make([]Bin, len(c.bins))}
	distance := 0.0
	for i, b := range c.bins {
		r.Bins[i] = Bin{From: float64(i) / 10, To: float64(i+1) / 10, N: b.n, SuccessRate: rate(b.hits, b.n)}
		if b.n > 0 {
			r.Bins[i].MeanConfidence = rounded(b.sum/float64(b.n), 1e4)
			distance += math.Abs(b.sum - float64(b.hits))
		}
	}
	if n := float64(c.n); c.n > 0 {
		r.MeanConfidence, r.Brier, r.ECE = rounded(c.sum/n, 1e4), rounded(c.square/n, 1e4), rounded(distance/n, 1e4)
	}
	return r
}
