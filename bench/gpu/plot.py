"""A small scatter plot as SVG, without a library: log2 axes, a dot for each case, a line of
means."""

import math
from html import escape
from statistics import geometric_mean

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 760, 300, 64, 44, 16, 48
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #333 } .title { font-size: 14px; font-weight: 600 }
.grid { stroke: #ddd } .even { stroke: #333; stroke-width: 1.5 }
.mean { fill: none; stroke-width: 2 }
</style>"""
COLORS = ["#1f77b4", "#d95f02", "#2a9d4a"]


class Panel:
    """One plot of points (x, y), both > 0, in named series."""

    def __init__(self, title, x_label, y_label, series):
        self.title, self.x_label, self.y_label, self.series = title, x_label, y_label, series
        points = [point for each in series.values() for point in each] or [(1, 1), (2, 2)]
        xs, ys = ([math.log2(p[axis]) for p in points] for axis in (0, 1))
        self.x_range = (min(xs) - 0.4, max(xs) + 0.4)
        self.y_range = (min(min(ys), 0) - 0.05, max(max(ys), 0) + 0.05)

    def x(self, value):
        low, high = self.x_range
        return LEFT + (math.log2(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        return HEIGHT - BOTTOM - (math.log2(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def y_ticks(self):
        low, high = (2 ** each for each in self.y_range)
        step = next(s for s in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10,
                                100) if (high - low) / s <= 10)
        return [i * step for i in range(math.ceil(low / step), int(high / step) + 1) if i > 0]

    def svg(self, top):
        out = [f'<g transform="translate(0 {top})">',
               f'<text class="title" x="{LEFT}" y="18">{escape(self.title)}</text>']
        for tick in self.y_ticks():
            y = self.y(tick)
            out.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
                       f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
        out.append(f'<line class="even" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{self.y(1):.1f}" '
                   f'y2="{self.y(1):.1f}"/>')
        for exponent in range(math.ceil(self.x_range[0]), int(self.x_range[1]) + 1):
            out.append(f'<text x="{self.x(2 ** exponent):.1f}" y="{HEIGHT - BOTTOM + 18}" '
                       f'text-anchor="middle">{2 ** exponent}</text>')
        out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">'
                   f'{escape(self.x_label)}</text>')
        out.append(f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
                   f'text-anchor="middle">{escape(self.y_label)}</text>')
        for index, (name, points) in enumerate(self.series.items()):
            out += self.one_series(index, name, points)
        return "\n".join(out + ["</g>"])

    def one_series(self, index, name, points):
        color = COLORS[index % len(COLORS)]
        for x, y in points:
            yield (f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.5" fill="{color}" '
                   'fill-opacity="0.45"/>')
        means = [(x, geometric_mean([y for at, y in points if at == x]))
                 for x in sorted({x for x, _ in points})]
        line = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in means)
        yield f'<polyline class="mean" stroke="{color}" points="{line}"/>'
        x = LEFT + 8 + index * 250
        yield (f'<circle cx="{x}" cy="{TOP - 12}" r="4" fill="{color}"/>'
               f'<text x="{x + 10}" y="{TOP - 8}">{escape(name)}</text>')


def write(path, panels):
    height = HEIGHT * len(panels)
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">\n{STYLE}\n'
                   f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>\n')
        for index, panel in enumerate(panels):
            file.write(panel.svg(index * HEIGHT) + "\n")
        file.write("</svg>\n")
