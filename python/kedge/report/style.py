"""How the page looks: one style sheet, for light and dark, from a phone to a wide screen, and for paper.

A colour never says alone what something means: marks differ in shape, and each bar has its number beside it or in its table.
"""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbf9; --card: #ffffff; --ink: #1c2227; --quiet: #596570; --line: #dde2e6; --faint: #eef1f3;
  --begun: #7c8a97; --local: #2f6fbf; --node: #b06f00; --buffer: #a8487f; --store: #17805c; --bad: #bf3328; --back: #7a48b8; --lives: #17805c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14181c; --card: #1b2025; --ink: #e4e9ed; --quiet: #9ba8b3; --line: #333c44; --faint: #252c32;
    --begun: #8795a2; --local: #6aa7ee; --node: #dfa243; --buffer: #d983b4; --store: #4dbb92; --bad: #ee7a6e; --back: #b58aea; --lives: #4dbb92;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  font-variant-numeric: tabular-nums; -webkit-text-size-adjust: 100%; }
main, header, footer { max-width: 1240px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 28px; }
h1 { margin: 0; font-size: 26px; line-height: 1.25; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 17px; font-weight: 650; }
p { margin: 4px 0 0; max-width: 100ch; overflow-wrap: anywhere; }
.quiet, figcaption, small { color: var(--quiet); font-size: 13px; }
nav { margin-top: 8px; display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; }
a { color: var(--local); }
bdi { overflow-wrap: anywhere; }

.tiles { display: flex; flex-wrap: wrap; gap: 1px; margin: 20px 0 0; padding: 0;
  background: var(--line); border: 1px solid var(--line); border-radius: 8px; overflow: hidden; }
.tile { background: var(--card); padding: 12px 16px; min-width: 0; flex: 1 1 140px; }
.tile dt { color: var(--quiet); font-size: 13px; }
.tile dd { margin: 2px 0 0; font-size: 20px; font-weight: 600; line-height: 1.3; overflow-wrap: anywhere; }
.tile dd small { display: block; font-weight: 400; line-height: 1.4; }
.tile.bad dd { color: var(--bad); } .tile.good dd { color: var(--store); }
.tile dd small { color: var(--quiet); }

section { margin-top: 20px; padding: 18px 20px; background: var(--card); border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
.pair { display: grid; gap: 0 20px; grid-template-columns: repeat(2, minmax(0, 1fr)); }
figure { margin: 14px 0 0; }
figcaption { margin-bottom: 6px; }
.row { display: grid; grid-template-columns: 190px minmax(0, 1fr) 140px; gap: 0 14px; align-items: center; min-height: 28px; padding: 2px 0; }
.row + .row { border-top: 1px solid var(--faint); }
.row.axis { border-top: 1px solid var(--line); min-height: 0; padding: 0; }
.row.thin { min-height: 22px; padding: 0; border: 0; }
.row.thin small { display: inline; margin-left: 6px; }
.label { font-size: 13px; line-height: 1.3; min-width: 0; overflow-wrap: anywhere; }
.label small { display: block; font-size: 12px; }
.value { font-size: 13px; line-height: 1.3; overflow-wrap: anywhere; }
.value small { display: block; font-size: 12px; }
svg { display: block; overflow: visible; }
svg:not(.at) { width: 100%; }
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--quiet); font-variant-numeric: tabular-nums; }
.grid { stroke: var(--faint); stroke-width: 1; }
.track { fill: var(--faint); } .saved, .track-sample { fill: var(--line); } .rule-sample { fill: var(--ink); }
.begun { fill: var(--begun); } .local { fill: var(--local); } .node { fill: var(--node); } .buffer { fill: var(--buffer); } .store { fill: var(--store); }
.bad { fill: var(--bad); } .back { fill: var(--back); } .lives { fill: var(--lives); }
.mark { stroke: var(--card); stroke-width: 1.5; }
.range { opacity: 0.4; }
.diamond { transform: rotate(45deg); transform-box: fill-box; transform-origin: center; }
.trace { fill: none; stroke-width: 1.75; vector-effect: non-scaling-stroke; stroke-linejoin: round; }
.trace.local { stroke: var(--local); fill: none; } .trace.store { stroke: var(--store); fill: none; } .trace.begun { stroke: var(--begun); fill: none; }
.trace.node { stroke: var(--node); fill: none; }
.rule { stroke: var(--ink); stroke-width: 2; }
.plot { border-left: 1px solid var(--line); border-bottom: 1px solid var(--line); }
.key { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 0 0; padding: 0; list-style: none; font-size: 13px; color: var(--quiet); }
.key li { display: flex; align-items: center; gap: 6px; }
.key svg { width: 14px; flex: none; }

details { margin-top: 10px; font-size: 13px; }
summary { cursor: pointer; color: var(--quiet); width: fit-content; padding: 3px 0; }
summary:hover { color: var(--ink); }
.scroll { overflow-x: auto; margin-top: 6px; }
table { border-collapse: collapse; font-size: 13px; line-height: 1.4; min-width: 60%; }
th, td { padding: 4px 16px 4px 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--faint); }
th { color: var(--quiet); font-weight: 600; white-space: nowrap; border-bottom-color: var(--line); }
td { max-width: 52ch; }
td.number, th.number { text-align: right; white-space: nowrap; }
time { white-space: nowrap; }
.trouble { margin: 8px 0 0; padding: 0; list-style: none; }
.trouble li { display: grid; grid-template-columns: 190px minmax(0, 1fr); gap: 0 14px; padding: 5px 0; border-top: 1px solid var(--faint); overflow-wrap: anywhere; font-size: 14px; }
.trouble li:first-child { border: 0; }
.trouble time, .trouble span { color: var(--quiet); font-size: 13px; }
ul.plain { margin: 8px 0 0; padding-left: 18px; max-width: 90ch; font-size: 14px; }
footer { padding-top: 18px; padding-bottom: 36px; color: var(--quiet); font-size: 13px; overflow-wrap: anywhere; }
#lost { color: var(--bad); }

@media (max-width: 1000px) { .pair { grid-template-columns: minmax(0, 1fr); } }
.pair .wide { display: none; }
@media (min-width: 1001px) { .pair .row { grid-template-columns: 132px minmax(0, 1fr) 112px; } }
@media (max-width: 640px) {
  main, header, footer { padding-left: 12px; padding-right: 12px; }
  section { padding: 14px 12px; }
  .row { grid-template-columns: minmax(0, 1fr) auto; gap: 3px 10px; padding: 6px 0; }
  .row > svg { grid-column: 1 / -1; order: 3; }
  .row > .value { text-align: right; max-width: 52vw; }
  .row.axis { padding: 0; } .row.axis > .label, .row.axis > .value { display: none; }
  .row.thin { padding: 1px 0; grid-template-columns: 64px minmax(0, 1fr) auto; } .row.thin > svg { grid-column: auto; order: 0; }
  .row.axis.thin > .label, .row.axis.thin > .value { display: block; }
  .wide { display: none; }
  .trouble li { grid-template-columns: minmax(0, 1fr); }
  .tile { padding: 10px 12px; }
  .tile dd { font-size: 17px; }
}
@media print {
  body { background: none; } section, .tile { break-inside: avoid; } details:not([open]) { display: none; }
}
"""
