"""How a report is shown. Each module has `render(reports, ...) -> str`."""
